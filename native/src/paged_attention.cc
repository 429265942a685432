// Attention over a cache in blocks, on the CPU: float32, one pass, no copy of keys or values.
//
// Composed from operators it would gather every sequence's blocks into one tensor, at every layer and step. Its
// reference in TypeScript is `pagedAttentionReference`; a parity test runs both.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "clones.h"
#include "napi_call.h"

namespace reroll {

namespace {

// Queries [S, H, K]; keys and values [blocks, blockSize, G, K]; table [R, M]; rows and positions [S].
struct Job {
  const float* q;
  const float* k;
  const float* v;
  const int32_t* table;
  const int32_t* rows;
  const int32_t* positions;
  const float* sinks;  // [H], or null for none
  float* out;
  int64_t numTokens, numHeads, numGroups, headSize, blockSize, tableWidth, window;
  float scale;
  float softCap;  // 0 for none
};

// Calls `visit(j, row)` for every key from `start` to `end`, where `row` is what token j has in `memory`: keys or
// values. Blocks lie anywhere, so the processor cannot foresee the next one: of that, `width` values a token are asked
// for ahead.
template <typename Visit>
inline __attribute__((always_inline)) void forKeys(const Job& job, const int32_t* table, int64_t start, int64_t end,
                                                   const float* memory, int64_t width, const Visit& visit) {
  constexpr int64_t kLine = 16;
  const int64_t stride = job.numGroups * job.headSize;
  for (int64_t j = start; j < end;) {
    const int64_t block = j / job.blockSize;
    const int64_t blockEnd = std::min(end, (block + 1) * job.blockSize);
    const int64_t next = table[blockEnd < end ? block + 1 : block];
    const int64_t ahead = (next - table[block]) * job.blockSize * stride;
    const float* row = memory + (table[block] * job.blockSize + j - block * job.blockSize) * stride;
    for (; j < blockEnd; j++, row += stride) {
      for (int64_t d = 0; d < width; d += kLine) __builtin_prefetch(row + ahead + d);
      visit(j, row);
    }
  }
}

// The sum of products in 16 lanes, which are added up one after another: the same order on every processor.
inline __attribute__((always_inline)) float dot(const float* a, const float* b, int64_t size) {
  constexpr int64_t kLanes = 16;
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
  Lanes sum{};
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) {
    Lanes x, y;
    std::memcpy(&x, a + d, sizeof(x));
    std::memcpy(&y, b + d, sizeof(y));
    sum += x * y;
  }
  for (; d < size; d++) sum[0] += a[d] * b[d];
  float total = 0;
#pragma GCC unroll 16
  for (int64_t lane = 0; lane < kLanes; lane++) total += sum[lane];
  return total;
}

// The heads of a query that share these heads of keys: scores of all keys they may see, softmax, weighted sum of
// values. Key by key and not head by head: what the heads of one token read then lies in one piece of memory.
REROLL_CLONES void attendHeads(const Job& job, int64_t token, int64_t firstGroup, int64_t endGroup, float* scores) {
  const int64_t K = job.headSize;
  const int64_t perGroup = job.numHeads / job.numGroups;
  const int32_t* table = job.table + job.rows[token] * job.tableWidth;
  const int64_t end = job.positions[token] + 1;
  const int64_t start = job.window > 0 ? std::max<int64_t>(0, end - job.window) : 0;
  const int64_t length = end - start;
  const int64_t firstHead = firstGroup * perGroup;
  const int64_t numHeads = endGroup * perGroup - firstHead;
  const float* q = job.q + (token * job.numHeads + firstHead) * K;
  const int64_t width = (endGroup - firstGroup) * K;
  const float* keys = job.k + firstGroup * K;
  forKeys(job, table, start, end, keys, width, [&](int64_t j, const float* k) __attribute__((always_inline)) {
    float* score = scores + j - start;
    for (int64_t head = 0; head < numHeads; k += K) {
      for (const int64_t next = head + perGroup; head < next; head++) {
        score[head * length] = dot(q + head * K, k, K) * job.scale;
      }
    }
  });
  for (int64_t head = 0; head < numHeads; head++) {
    float* row = scores + head * length;
    for (int64_t j = 0; job.softCap != 0 && j < length; j++) row[j] = job.softCap * std::tanh(row[j] / job.softCap);
    float top = job.sinks == nullptr ? -std::numeric_limits<float>::infinity() : job.sinks[firstHead + head];
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < length; j++) top = std::max(top, row[j]);
    float mass = job.sinks == nullptr ? 0 : std::exp(job.sinks[firstHead + head] - top);
    for (int64_t j = 0; j < length; j++) {
      row[j] = std::exp(row[j] - top);
      mass += row[j];
    }
    for (int64_t j = 0; j < length; j++) row[j] /= mass;
  }
  float* out = job.out + (token * job.numHeads + firstHead) * K;
  std::fill(out, out + numHeads * K, 0.0f);
  const float* values = job.v + firstGroup * K;
  forKeys(job, table, start, end, values, width, [&](int64_t j, const float* v) __attribute__((always_inline)) {
    const float* weight = scores + j - start;
    for (int64_t head = 0; head < numHeads; v += K) {
      for (const int64_t next = head + perGroup; head < next; head++) {
        const float share = weight[head * length];
        float* sum = out + head * K;
#pragma omp simd
        for (int64_t d = 0; d < K; d++) sum[d] += share * v[d];
      }
    }
  });
}

// Threads are worth their start from this many products on.
constexpr double kGrain = 65536;

void attend(const Job& job) {
  double numProducts = 0;
  for (int64_t i = 0; i < job.numTokens; i++) {
    const int64_t seen = job.positions[i] + 1;
    numProducts +=
        static_cast<double>((job.window > 0 ? std::min(seen, job.window) : seen) * job.numHeads * job.headSize);
  }
  // Few tokens are cut into their heads.
  const int64_t numParts = job.numTokens < at::get_num_threads() ? job.numGroups : 1;
  const int64_t numGroups = job.numGroups / numParts;
  const int64_t work = job.numTokens * numParts;
  const int64_t grain =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(work) * kGrain / std::max(numProducts, 1.0)));
  at::parallel_for(0, work, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(job.numHeads / numParts * job.tableWidth * job.blockSize));
    for (int64_t i = begin; i < end; i++) {
      const int64_t first = i % numParts * numGroups;
      attendHeads(job, i / numParts, first, first + numGroups, scores.data());
    }
  });
}

void require(bool holds, const char* what) {
  if (!holds) throw Failure("SHAPE_MISMATCH", what);
}

bool isPlain(const at::Tensor& tensor, at::ScalarType type, int64_t dims) {
  return tensor.device().is_cpu() && tensor.scalar_type() == type && tensor.dim() == dims && tensor.is_contiguous();
}

// Every index is checked before the loop: a wrong table must be an error and not a read of foreign memory.
void checkIndices(const Job& job, int64_t numRows, int64_t numBlocks) {
  for (int64_t s = 0; s < job.numTokens; s++) {
    require(job.rows[s] >= 0 && job.rows[s] < numRows, "a row index is outside the block table.");
    require(job.positions[s] >= 0 && job.positions[s] < job.tableWidth * job.blockSize,
            "a position is outside the block table.");
    const int32_t* table = job.table + job.rows[s] * job.tableWidth;
    for (int64_t b = 0; b <= job.positions[s] / job.blockSize; b++) {
      require(table[b] >= 0 && table[b] < numBlocks, "a block number is outside the cache.");
    }
  }
}

// pagedAttention(q, keys, values, table, rows, positions, scale, window, softCap, sinks): [S, H, K]. Window 0 sees
// everything, softCap 0 caps nothing, and sinks may be null.
napi_value pagedAttention(Arguments& args) {
  const at::Tensor q = args.tensor(0, "q").contiguous();
  const at::Tensor& k = args.tensor(1, "keys");
  const at::Tensor& v = args.tensor(2, "values");
  const at::Tensor& table = args.tensor(3, "table");
  const at::Tensor& rows = args.tensor(4, "rows");
  const at::Tensor& positions = args.tensor(5, "positions");
  require(isPlain(q, at::kFloat, 3) && isPlain(k, at::kFloat, 4) && isPlain(v, at::kFloat, 4),
          "q must be [S, H, K] and keys and values [blocks, size, G, K], contiguous float32 on the CPU.");
  require(isPlain(table, at::kInt, 2) && isPlain(rows, at::kInt, 1) && isPlain(positions, at::kInt, 1),
          "table must be [R, M], rows and positions [S], contiguous int32 on the CPU.");
  require(k.sizes().equals(v.sizes()) && k.size(3) == q.size(2) && k.size(2) > 0 && q.size(1) % k.size(2) == 0,
          "heads of q, keys and values do not fit together.");
  require(rows.size(0) == q.size(0) && positions.size(0) == q.size(0),
          "rows and positions must have one entry per query.");
  const at::Tensor sinks = args.isMissing(9) ? at::Tensor() : args.tensor(9, "sinks");
  require(!sinks.defined() || (isPlain(sinks, at::kFloat, 1) && sinks.size(0) == q.size(1)),
          "sinks must have one contiguous float32 per head on the CPU.");
  at::Tensor out = at::empty(q.sizes(), q.options());
  const Job job{q.data_ptr<float>(),
                k.data_ptr<float>(),
                v.data_ptr<float>(),
                table.data_ptr<int32_t>(),
                rows.data_ptr<int32_t>(),
                positions.data_ptr<int32_t>(),
                sinks.defined() ? sinks.data_ptr<float>() : nullptr,
                out.data_ptr<float>(),
                q.size(0),
                q.size(1),
                k.size(2),
                q.size(2),
                k.size(1),
                table.size(1),
                args.integer(7, "window"),
                static_cast<float>(args.number(6, "scale")),
                static_cast<float>(args.number(8, "softCap"))};
  checkIndices(job, table.size(0), k.size(0));
  attend(job);
  return toJs(args.state, out);
}

}  // namespace

std::vector<Export> pagedAttentionExports() { return {{"pagedAttention", pagedAttention}}; }

}  // namespace reroll
