// A linear product on the CPU in float32 whose rows do not depend on each other: what is computed for one row is the
// same to the bit, however many rows there are, wherever it stands among them, and with any number of threads.
//
// Libraries do not promise that. They cut a product by its number of rows, give what is left over to other kernels, and
// divide it among threads by its shape. Here every result is one sum whose order follows from its length alone: pieces
// of kPiece values one after another, within a piece kLanes sums side by side. How results are grouped changes which of
// them are computed together, and never what goes into one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "clones.h"
#include "napi_call.h"

namespace reroll {

namespace {

constexpr int64_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef float Half __attribute__((vector_size(kLanes / 2 * sizeof(float))));

// 3 x 4 sums, what they are made of and nothing more fill the 16 registers of AVX2.
constexpr int64_t kRows = 3;
constexpr int64_t kColumns = 4;
// Seven such rows of this many values stay in a first-level cache of 32 KB.
constexpr int64_t kPiece = 1024;
// So many rows of x are used with all weights while they lie in the second-level cache.
constexpr int64_t kBlock = 48;

void require(bool holds, const char* what) {
  if (!holds) throw Failure("SHAPE_MISMATCH", what);
}

// x [numRows, length], weight [numColumns, length], bias [numColumns] or null, out [numRows, numColumns].
struct Product {
  const float* x;
  const float* weight;
  const float* bias;
  float* out;
  int64_t numRows, numColumns, length, xStride, weightStride;
};

inline __attribute__((always_inline)) Lanes load(const float* from, int64_t count) {
  Lanes lanes{};
  std::memcpy(&lanes, from, count * sizeof(float));
  return lanes;
}

inline __attribute__((always_inline)) float sumOf(const Lanes& lanes) {
  Half low, high;
  std::memcpy(&low, &lanes, sizeof(low));
  std::memcpy(&high, reinterpret_cast<const char*>(&lanes) + sizeof(low), sizeof(high));
  const Half half = low + high;
  return (half[0] + half[2]) + (half[1] + half[3]);
}

// The results of some rows and columns over one piece of their sums, which are added to those of the pieces before.
template <int64_t rows, int64_t columns>
inline __attribute__((always_inline)) void tile(const Product& job, int64_t row, int64_t column, int64_t from,
                                                int64_t size) {
  Lanes sums[rows][columns]{};
  const float* x = job.x + row * job.xStride + from;
  const float* weight = job.weight + column * job.weightStride + from;
  const auto add = [&](int64_t d, int64_t count) __attribute__((always_inline)) {
    Lanes values[rows];
#pragma GCC unroll 8
    for (int64_t i = 0; i < rows; i++) values[i] = load(x + i * job.xStride + d, count);
#pragma GCC unroll 8
    for (int64_t j = 0; j < columns; j++) {
      const Lanes factors = load(weight + j * job.weightStride + d, count);
#pragma GCC unroll 8
      for (int64_t i = 0; i < rows; i++) sums[i][j] += values[i] * factors;
    }
  };
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) add(d, kLanes);
  if (d < size) add(d, size - d);
#pragma GCC unroll 8
  for (int64_t i = 0; i < rows; i++) {
    float* out = job.out + (row + i) * job.numColumns + column;
#pragma GCC unroll 8
    for (int64_t j = 0; j < columns; j++) {
      const float before = from > 0 ? out[j] : job.bias == nullptr ? 0.0f : job.bias[column + j];
      out[j] = before + sumOf(sums[i][j]);
    }
  }
}

template <int64_t columns>
inline __attribute__((always_inline)) void tiles(const Product& job, int64_t row, int64_t endRow, int64_t column,
                                                 int64_t from, int64_t size) {
  for (; row + kRows <= endRow; row += kRows) tile<kRows, columns>(job, row, column, from, size);
  if (row + 2 == endRow) tile<2, columns>(job, row, column, from, size);
  if (row + 1 == endRow) tile<1, columns>(job, row, column, from, size);
}

REROLL_CLONES void multiplyColumns(const Product& job, int64_t begin, int64_t end) {
  for (int64_t row = 0; row < job.numRows; row += kBlock) {
    const int64_t endRow = std::min(row + kBlock, job.numRows);
    for (int64_t from = 0; from < job.length; from += kPiece) {
      const int64_t size = std::min(kPiece, job.length - from);
      int64_t column = begin;
      for (; column + kColumns <= end; column += kColumns) tiles<kColumns>(job, row, endRow, column, from, size);
      for (; column < end; column++) tiles<1>(job, row, endRow, column, from, size);
    }
  }
}

// Threads are worth their start from this many products on.
constexpr int64_t kGrain = 65536;

void multiply(const Product& job) {
  const int64_t perGroup = kColumns * job.numRows * job.length;
  const int64_t numGroups = (job.numColumns + kColumns - 1) / kColumns;
  at::parallel_for(0, numGroups, std::max<int64_t>(1, kGrain / perGroup), [&](int64_t begin, int64_t end) {
    multiplyColumns(job, begin * kColumns, std::min(end * kColumns, job.numColumns));
  });
}

bool isFloatOnCpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.scalar_type() == at::kFloat;
}

at::Tensor inRows(const at::Tensor& matrix) {
  return matrix.size(1) == 1 || matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

// steadyLinear(x, weight, bias): x weight' + bias for x [..., K], weight [N, K] and bias [N] or null; null where they
// are not all float32 on the CPU. Gradients do not go through it.
napi_value steadyLinear(Arguments& args) {
  const at::Tensor& x = args.tensor(0, "x");
  const at::Tensor& weight = args.tensor(1, "weight");
  const at::Tensor bias = args.isMissing(2) ? at::Tensor() : args.tensor(2, "bias").contiguous();
  if (!isFloatOnCpu(x) || !isFloatOnCpu(weight) || (bias.defined() && !isFloatOnCpu(bias))) {
    return toJsNull(args.state);
  }
  require(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1) && weight.size(1) > 0,
          "x must be [..., K] and weight [N, K], K at least 1.");
  require(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "bias must be [N].");
  const at::Tensor rows = inRows(x.reshape({-1, x.size(-1)}));
  const at::Tensor columns = inRows(weight);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  at::Tensor out = at::empty(shape, x.options());
  const Product job{rows.data_ptr<float>(),
                    columns.data_ptr<float>(),
                    bias.defined() ? bias.data_ptr<float>() : nullptr,
                    out.data_ptr<float>(),
                    rows.size(0),
                    columns.size(0),
                    columns.size(1),
                    rows.stride(0),
                    columns.stride(0)};
  if (out.numel() > 0) multiply(job);
  return toJs(args.state, out);
}

// openblasCore(): the processor whose kernels OpenBLAS takes, by OpenBLAS's name for it; null where libtorch has
// another library for products.
napi_value openblasCore(Arguments& args) {
  void* name = at::hasMKL() ? nullptr : dlsym(RTLD_DEFAULT, "openblas_get_corename");
  if (name == nullptr) return toJsNull(args.state);
  return toJs(args.state, std::string(reinterpret_cast<const char* (*)()>(name)()));
}

}  // namespace

std::vector<Export> steadyProductExports() { return {{"steadyLinear", steadyLinear}, {"openblasCore", openblasCore}}; }

}  // namespace reroll
