// Attention over a cache in blocks, on the CPU: float32, one pass, no copy of keys or values.
//
// Composed from operators it would gather every sequence's blocks into one tensor, at every layer and step. Its
// reference in TypeScript is `pagedAttentionReference`; a parity test runs both.
#include <algorithm>
#include <cmath>
#include <limits>

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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define REROLL_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define REROLL_CLONES
#endif

// One query head: scores of all keys it may see, softmax, weighted sum of values.
REROLL_CLONES void attendHead(const Job& job, int64_t token, int64_t head, float* scores) {
  const int64_t K = job.headSize;
  const int64_t stride = job.numGroups * K;
  const int64_t group = head / (job.numHeads / job.numGroups);
  const int32_t* table = job.table + job.rows[token] * job.tableWidth;
  const int64_t end = job.positions[token] + 1;
  const int64_t start = job.window > 0 ? std::max<int64_t>(0, end - job.window) : 0;
  const float* q = job.q + (token * job.numHeads + head) * K;
  float top = job.sinks == nullptr ? -std::numeric_limits<float>::infinity() : job.sinks[head];
  for (int64_t j = start; j < end; j++) {
    const float* k = job.k + (table[j / job.blockSize] * job.blockSize + j % job.blockSize) * stride + group * K;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < K; d++) sum += q[d] * k[d];
    scores[j - start] = job.softCap == 0 ? sum * job.scale : job.softCap * std::tanh(sum * job.scale / job.softCap);
    top = std::max(top, scores[j - start]);
  }
  float mass = job.sinks == nullptr ? 0 : std::exp(job.sinks[head] - top);
  for (int64_t j = 0; j < end - start; j++) {
    scores[j] = std::exp(scores[j] - top);
    mass += scores[j];
  }
  float* out = job.out + (token * job.numHeads + head) * K;
  std::fill(out, out + K, 0.0f);
  for (int64_t j = start; j < end; j++) {
    const float* v = job.v + (table[j / job.blockSize] * job.blockSize + j % job.blockSize) * stride + group * K;
    const float weight = scores[j - start] / mass;
#pragma omp simd
    for (int64_t d = 0; d < K; d++) out[d] += weight * v[d];
  }
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
  const at::Tensor& q = args.tensor(0, "q");
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
  const int64_t work = job.numTokens * job.numHeads;
#pragma omp parallel if (work > 16)
  {
    std::vector<float> scores(static_cast<size_t>(job.tableWidth * job.blockSize));
#pragma omp for schedule(static)
    for (int64_t i = 0; i < work; i++) attendHead(job, i / job.numHeads, i % job.numHeads, scores.data());
  }
  return toJs(args.state, out);
}

}  // namespace

std::vector<Export> pagedAttentionExports() { return {{"pagedAttention", pagedAttention}}; }

}  // namespace reroll
