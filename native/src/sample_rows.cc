// Draws a token per row of scores on the CPU, in float64: by temperature alone, or the best.
//
// Its reference in TypeScript is the composition in sampler.ts, which also does what this cannot; a parity test runs
// both.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "clones.h"
#include "napi_call.h"

namespace reroll {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Failure("SHAPE_MISMATCH", what);
}

// e^x for x of at most 0, as good as the one of libm and in a form that many values go through at once: the power of
// two is the exponent of a float, and what is left, at most ln(2) / 2 from 0, goes through the series of e^x.
inline __attribute__((always_inline)) double expOf(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: a sum with it is rounded to an integer
  const double bounded = x < -708.0 ? -708.0 : x;
  const double shifted = bounded * kLog2E + kShift;
  const double n = shifted - kShift;
  const double r = (bounded - n * kLn2High) - n * kLn2Low;
  double series = 1.0 / 6227020800.0;
  constexpr double kFactors[] = {1.0 / 479001600.0,
                                 1.0 / 39916800.0,
                                 1.0 / 3628800.0,
                                 1.0 / 362880.0,
                                 1.0 / 40320.0,
                                 1.0 / 5040.0,
                                 1.0 / 720.0,
                                 1.0 / 120.0,
                                 1.0 / 24.0,
                                 1.0 / 6.0,
                                 0.5,
                                 1.0,
                                 1.0};
#pragma GCC unroll 13
  for (int i = 0; i < 13; i++) series = series * r + kFactors[i];
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = static_cast<int64_t>(static_cast<uint64_t>(bits + 1023) << 52);
  double power;
  std::memcpy(&power, &bits, sizeof(power));
  return x < -708.0 ? 0.0 : series * power;
}

// e^(z / temperature - best / temperature) of each score, and their sum in order.
REROLL_CLONES double expRow(const float* z, int64_t size, double best, double temperature, double* out) {
  const double top = best / temperature;
  if (temperature == 1.0) {
#pragma omp simd
    for (int64_t i = 0; i < size; i++) out[i] = expOf(static_cast<double>(z[i]) - top);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < size; i++) out[i] = expOf(static_cast<double>(z[i]) / temperature - top);
  }
  double sum = 0;
  for (int64_t i = 0; i < size; i++) sum += out[i];
  return sum;
}

// The first of the highest scores; -1 where one is no number.
int64_t bestOf(const float* z, int64_t size) {
  int64_t best = 0;
  for (int64_t i = 0; i < size; i++) {
    if (std::isnan(z[i])) return -1;
    if (z[i] > z[best]) best = i;
  }
  return best;
}

// The token in whose part of the cumulative distribution the goal falls. One that was rounded up to the total is
// nobody's: the last token with mass would be as good as the best.
int64_t invert(const double* mass, int64_t size, double goal, int64_t best) {
  double sum = 0;
  for (int64_t i = 0; i < size; i++) {
    sum += mass[i];
    if (sum > goal) return i;
  }
  return best;
}

struct Drawn {
  double token = -1;
  double samplerLogprob = std::numeric_limits<double>::quiet_NaN();
  double modelLogprob = std::numeric_limits<double>::quiet_NaN();
};

Drawn drawRow(const float* z, int64_t size, double temperature, double uniform, double* mass) {
  const int64_t best = bestOf(z, size);
  if (best < 0) return {};
  const double top = z[best];
  Drawn drawn;
  const double modelMass = expRow(z, size, top, 1, mass);
  const auto modelLogprob = [&](int64_t token) { return z[token] - top - std::log(modelMass); };
  if (temperature == 0) {
    drawn = {static_cast<double>(best), 0, modelLogprob(best)};
  } else {
    const double sum = temperature == 1 ? modelMass : expRow(z, size, top, temperature, mass);
    const int64_t token = invert(mass, size, sum * uniform, best);
    const double logprob = z[token] / temperature - top / temperature - std::log(sum);
    drawn = {static_cast<double>(token), logprob, modelLogprob(token)};
  }
  return drawn;
}

const double* float64s(const TypedArrayView& view, int64_t count, const char* what) {
  require(view.type == napi_float64_array && view.byteLength == count * sizeof(double), what);
  return static_cast<const double*>(view.data);
}

// sampleRows(scores, temperatures, uniforms, out): for scores [B, V] and B numbers each, B tokens into out, then their
// B log-probabilities at the temperature, then B at temperature 1. A row with NaN gives token -1 and no
// log-probabilities.
napi_value sampleRows(Arguments& args) {
  const at::Tensor scores = args.tensor(0, "scores").contiguous();
  require(scores.device().is_cpu() && scores.scalar_type() == at::kFloat && scores.dim() == 2 && scores.size(1) > 0,
          "scores must be [B, V], float32 on the CPU.");
  const int64_t B = scores.size(0), V = scores.size(1);
  const double* temperatures = float64s(args.typedArray(1, "temperatures"), B, "temperatures must be B float64.");
  const double* uniforms = float64s(args.typedArray(2, "uniforms"), B, "uniforms must be B float64.");
  double* out = const_cast<double*>(float64s(args.typedArray(3, "out"), 3 * B, "out must have room for 3 B float64."));
  const float* z = scores.data_ptr<float>();
  constexpr int64_t kGrain = 32768;  // values: what libtorch gives a thread
  at::parallel_for(0, B, std::max<int64_t>(1, kGrain / V), [&](int64_t begin, int64_t end) {
    std::vector<double> mass(static_cast<size_t>(V));
    for (int64_t i = begin; i < end; i++) {
      const Drawn drawn = drawRow(z + i * V, V, temperatures[i], uniforms[i], mass.data());
      out[i] = drawn.token;
      out[B + i] = drawn.samplerLogprob;
      out[2 * B + i] = drawn.modelLogprob;
    }
  });
  return nullptr;
}

}  // namespace

std::vector<Export> sampleRowExports() { return {{"sampleRows", sampleRows}}; }

}  // namespace reroll
