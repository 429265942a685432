// Passes over rows of float32 on the CPU: what a decoder does to a token between two products, each in one call.
//
// Composed from operators each is up to a dozen calls and as many passes over memory, which for a small model is most
// of its time. Sums are libtorch's own, and everything else rounds as its operators do one after another (this file is
// compiled without fused multiply-adds), so a pass gives what its composition gives, to the bit. The compositions stay
// in TypeScript as references: row-passes.ts says where, and a parity test runs both.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "clones.h"
#include "napi_call.h"

namespace reroll {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw Failure("SHAPE_MISMATCH", what);
}

bool isFloatOnCpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.scalar_type() == at::kFloat;
}

// The values of a tensor as [outer, inner, width], of which the last lie side by side: tokens, heads and their values.
struct Rows {
  float* data = nullptr;
  int64_t outer = 0, inner = 1, width = 0, outerStride = 0, innerStride = 0;
  float* at(int64_t i, int64_t j) const { return data + i * outerStride + j * innerStride; }
};

bool hasRows(const at::Tensor& tensor) {
  return isFloatOnCpu(tensor) && tensor.dim() >= 1 && tensor.dim() <= 3 && tensor.size(-1) > 0 &&
         (tensor.stride(-1) == 1 || tensor.size(-1) == 1 || tensor.numel() == 0);
}

Rows rowsOf(const at::Tensor& tensor, const char* what) {
  require(hasRows(tensor), what);
  Rows rows;
  rows.data = tensor.data_ptr<float>();
  rows.outer = tensor.dim() == 1 ? 1 : tensor.size(0);
  rows.width = tensor.size(-1);
  rows.outerStride = tensor.stride(0);
  if (tensor.dim() == 3) {
    rows.inner = tensor.size(1);
    rows.innerStride = tensor.stride(1);
  }
  return rows;
}

const float* vectorOf(const at::Tensor& tensor, int64_t size, const char* what) {
  require(isFloatOnCpu(tensor) && tensor.is_contiguous() && tensor.numel() == size, what);
  return tensor.data_ptr<float>();
}

void forTokens(const Rows& rows, const std::function<void(int64_t, int64_t)>& body) {
  constexpr int64_t kGrain = 32768;  // values: what libtorch gives a thread
  const int64_t numValues = rows.inner * rows.width;
  if (numValues == 0) return;
  at::parallel_for(0, rows.outer, std::max<int64_t>(1, kGrain / numValues), body);
}

REROLL_CLONES void addSquares(const Rows& x, const Rows* delta, const Rows* sum, const Rows& squares, int64_t begin,
                              int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    for (int64_t j = 0; j < x.inner; j++) {
      const float* a = x.at(i, j);
      float* square = squares.at(i, j);
      if (delta == nullptr) {
#pragma omp simd
        for (int64_t d = 0; d < x.width; d++) square[d] = a[d] * a[d];
        continue;
      }
      const float* b = delta->at(i, j);
      float* total = sum->at(i, j);
#pragma omp simd
      for (int64_t d = 0; d < x.width; d++) {
        total[d] = a[d] + b[d];
        square[d] = total[d] * total[d];
      }
    }
  }
}

float scaleOf(float mean, float eps) { return 1.0f / std::sqrt(mean + eps); }

REROLL_CLONES void scaleRows(const Rows& x, const float* means, const float* weight, float eps, const Rows& out,
                             int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    for (int64_t j = 0; j < x.inner; j++) {
      const float* a = x.at(i, j);
      float* b = out.at(i, j);
      const float scale = scaleOf(means[i * x.inner + j], eps);
#pragma omp simd
      for (int64_t d = 0; d < x.width; d++) b[d] = a[d] * scale * weight[d];
    }
  }
}

// residualNorm(x, delta, weight, eps): [sum, normed, means]. Where delta is null the sum is x, and null is returned.
napi_value residualNorm(Arguments& args) {
  const at::Tensor& x = args.tensor(0, "x");
  const Rows source = rowsOf(x, "x must be float32 rows on the CPU.");
  const float* weight = vectorOf(args.tensor(2, "weight"), source.width, "weight must have one float32 per column.");
  const float eps = static_cast<float>(args.number(3, "eps"));
  at::Tensor squares = at::empty(x.sizes(), x.options());
  const Rows squared = rowsOf(squares, "internal");
  at::Tensor sum;
  Rows summed = source;
  if (args.isMissing(1)) {
    forTokens(source, [&](int64_t begin, int64_t end) { addSquares(source, nullptr, nullptr, squared, begin, end); });
  } else {
    const at::Tensor& delta = args.tensor(1, "delta");
    const Rows added = rowsOf(delta, "delta must be float32 rows on the CPU.");
    require(delta.sizes().equals(x.sizes()), "x and delta must have one shape.");
    sum = at::empty(x.sizes(), x.options());
    summed = rowsOf(sum, "internal");
    forTokens(source, [&](int64_t begin, int64_t end) { addSquares(source, &added, &summed, squared, begin, end); });
  }
  const at::Tensor means = at::mean(squares, {-1}, true);
  // The squares are not needed any more: their memory takes the result.
  const float* mean = means.data_ptr<float>();
  forTokens(summed, [&](int64_t begin, int64_t end) { scaleRows(summed, mean, weight, eps, squared, begin, end); });
  return toJs(args.state, std::vector<at::Tensor>{sum, squares, means});
}

// What goes into the sums of the backward pass: of each row, and of each column.
REROLL_CLONES void normProducts(const Rows& grad, const Rows& x, const float* means, const float* weight, float eps,
                                const Rows& byRow, const Rows& byColumn, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    for (int64_t j = 0; j < x.inner; j++) {
      const float* a = x.at(i, j);
      const float* g = grad.at(i, j);
      float* row = byRow.at(i, j);
      float* column = byColumn.at(i, j);
      const float scale = scaleOf(means[i * x.inner + j], eps);
#pragma omp simd
      for (int64_t d = 0; d < x.width; d++) {
        row[d] = g[d] * weight[d] * a[d];
        column[d] = g[d] * (a[d] * scale);
      }
    }
  }
}

REROLL_CLONES void normGradient(const Rows& grad, const Rows* gradSum, const Rows& x, const float* means,
                                const float* sums, const float* weight, float eps, const Rows& out, int64_t begin,
                                int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    for (int64_t j = 0; j < x.inner; j++) {
      const float* a = x.at(i, j);
      const float* g = grad.at(i, j);
      float* b = out.at(i, j);
      const float scale = scaleOf(means[i * x.inner + j], eps);
      const float slope = sums[i * x.inner + j] * -0.5f * (scale * scale * scale) / static_cast<float>(x.width);
      if (gradSum == nullptr) {
#pragma omp simd
        for (int64_t d = 0; d < x.width; d++) b[d] = g[d] * weight[d] * scale + slope * (2.0f * a[d]);
        continue;
      }
      const float* own = gradSum->at(i, j);
#pragma omp simd
      for (int64_t d = 0; d < x.width; d++) b[d] = own[d] + g[d] * weight[d] * scale + slope * (2.0f * a[d]);
    }
  }
}

// residualNormBackward(grad, gradSum, x, weight, means, eps): [gradient of x, gradient of weight], where x is the sum
// and gradSum, which may be null, arrives at it from elsewhere.
napi_value residualNormBackward(Arguments& args) {
  const at::Tensor& x = args.tensor(2, "x");
  const Rows source = rowsOf(x, "x must be float32 rows on the CPU.");
  const Rows grad = rowsOf(args.tensor(0, "grad"), "grad must be float32 rows on the CPU.");
  require(args.tensor(0, "grad").sizes().equals(x.sizes()), "grad must have the shape of x.");
  Rows own;
  if (!args.isMissing(1)) {
    own = rowsOf(args.tensor(1, "gradSum"), "gradSum must be float32 rows on the CPU.");
    require(args.tensor(1, "gradSum").sizes().equals(x.sizes()), "gradSum must have the shape of x.");
  }
  const at::Tensor& weightTensor = args.tensor(3, "weight");
  const float* weight = vectorOf(weightTensor, source.width, "weight must have one float32 per column.");
  const float* means =
      vectorOf(args.tensor(4, "means"), source.outer * source.inner, "means must have one float32 per row.");
  const float eps = static_cast<float>(args.number(5, "eps"));
  at::Tensor byRow = at::empty(x.sizes(), x.options());
  const at::Tensor byColumn = at::empty(x.sizes(), x.options());
  const Rows inRows = rowsOf(byRow, "internal");
  const Rows inColumns = rowsOf(byColumn, "internal");
  forTokens(source, [&](int64_t begin, int64_t end) {
    normProducts(grad, source, means, weight, eps, inRows, inColumns, begin, end);
  });
  const at::Tensor gradWeight = at::sum_to(byColumn, weightTensor.sizes());
  const at::Tensor sums = at::sum(byRow, {-1}, true);
  const float* sum = sums.data_ptr<float>();
  const Rows* arriving = args.isMissing(1) ? nullptr : &own;
  forTokens(source, [&](int64_t begin, int64_t end) {
    normGradient(grad, arriving, source, means, sum, weight, eps, inRows, begin, end);
  });
  return toJs(args.state, std::vector<at::Tensor>{byRow, gradWeight});
}

REROLL_CLONES void turnRows(const Rows& x, const float* cosines, const float* sines, float sign, const Rows& out,
                            int64_t begin, int64_t end) {
  const int64_t half = x.width / 2;
  for (int64_t i = begin; i < end; i++) {
    const float* c = cosines + i * half;
    const float* s = sines + i * half;
    for (int64_t j = 0; j < x.inner; j++) {
      const float* a = x.at(i, j);
      float* b = out.at(i, j);
#pragma omp simd
      for (int64_t d = 0; d < half; d++) {
        const float sine = s[d] * sign;
        b[d] = a[d] * c[d] - a[d + half] * sine;
        b[d + half] = a[d + half] * c[d] + a[d] * sine;
      }
    }
  }
}

// rotateRows(x, cos, sin, sign): pairs (x[d], x[d + K / 2]) of [S, H, K] turned by their token's angles, [S, K / 2].
napi_value rotateRows(Arguments& args) {
  const at::Tensor& x = args.tensor(0, "x");
  const Rows source = rowsOf(x, "x must be float32 rows on the CPU.");
  require(source.width % 2 == 0, "heads must have an even number of values.");
  const int64_t numAngles = source.outer * source.width / 2;
  const at::Tensor cos = args.tensor(1, "cos").contiguous();
  const at::Tensor sin = args.tensor(2, "sin").contiguous();
  const float* cosines = vectorOf(cos, numAngles, "cos must be [S, K / 2], float32 on the CPU.");
  const float* sines = vectorOf(sin, numAngles, "sin must be [S, K / 2], float32 on the CPU.");
  const float sign = static_cast<float>(args.number(3, "sign"));
  at::Tensor out = at::empty(x.sizes(), x.options());
  const Rows turned = rowsOf(out, "internal");
  forTokens(source, [&](int64_t begin, int64_t end) { turnRows(source, cosines, sines, sign, turned, begin, end); });
  return toJs(args.state, out);
}

// storeRows(x, slots, into): row i of x becomes row slots[i] of `into`.
napi_value storeRows(Arguments& args) {
  const at::Tensor& x = args.tensor(0, "x");
  const at::Tensor& slots = args.tensor(1, "slots");
  const at::Tensor& into = args.tensor(2, "into");
  const Rows source = rowsOf(x, "x must be float32 rows on the CPU.");
  require(isFloatOnCpu(into) && into.is_contiguous() && into.dim() == x.dim() &&
              into.sizes().slice(1).equals(x.sizes().slice(1)),
          "`into` must have rows as x has, contiguous float32 on the CPU.");
  require(slots.device().is_cpu() && slots.scalar_type() == at::kInt && slots.is_contiguous() &&
              slots.numel() == source.outer,
          "slots must have one int32 per row of x.");
  const int32_t* slot = slots.data_ptr<int32_t>();
  for (int64_t i = 0; i < source.outer; i++) {
    require(slot[i] >= 0 && slot[i] < into.size(0), "a slot is outside of what is written to.");
  }
  float* target = into.data_ptr<float>();
  for (int64_t i = 0; i < source.outer; i++) {
    for (int64_t j = 0; j < source.inner; j++) {
      std::memcpy(target + (slot[i] * source.inner + j) * source.width, source.at(i, j), source.width * sizeof(float));
    }
  }
  return nullptr;
}

// areRows(tensors): whether the passes take all of them.
napi_value areRows(Arguments& args) {
  bool all = true;
  for (const at::Tensor& tensor : args.tensors(0, "tensors")) all = all && hasRows(tensor);
  return toJsBoolean(args.state, all);
}

}  // namespace

std::vector<Export> rowPassExports() {
  return {{"residualNorm", residualNorm},
          {"residualNormBackward", residualNormBackward},
          {"rotateRows", rotateRows},
          {"storeRows", storeRows},
          {"areRows", areRows}};
}

}  // namespace reroll
