/**
 * What a loss needs of a row of scores (log-probability of the target, entropy, log of the normalizer) in one pass, and
 * the gradient of the scores in one more, in place and in the scores' own type. A block works on one row.
 */
import { empty } from "../create.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const threads = 512;

/** Per row: log p(target), entropy, log Z of softmax(scores / temperature), float32. V must be a multiple of 8. */
export function scoreStatisticsKernel(z_SV: Tensor, targets_S: Tensor, temperature: number): [Tensor, Tensor, Tensor] {
  const [S, V] = z_SV.shape as [number, number];
  const make = () => empty([S], { device: z_SV.device });
  const outputs: [Tensor, Tensor, Tensor] = [make(), make(), make()];
  statistics(z_SV.dtype, { blocks: S, threads }, [z_SV, targets_S, ...outputs, { int: V }, { float: 1 / temperature }]);
  return outputs;
}

/** What the gradient of a row of scores is made of: its target, and per row log Z, entropy and the gradients that arrive. */
type RowGradients = readonly [
  targets_S: Tensor,
  logZ_S: Tensor,
  entropy_S: Tensor,
  ofLogprob_S: Tensor,
  ofEntropy_S: Tensor,
];

/**
 * Overwrites scores with gradLogprob (onehot - p) - gradEntropy p (log p + H), over the temperature. Float32 scores can give a gradient in
 * 16 bits: it then lies in the first half of each row's memory, and its rows are as far apart as they were.
 */
export function scoreGradientKernel_(
  z_SV: Tensor,
  rows: RowGradients,
  temperature: number,
  dtype = z_SV.dtype,
): Tensor {
  const [S, V] = z_SV.shape as [number, number];
  const isNarrowed = z_SV.dtype === "float32" && dtype !== "float32";
  const run = isNarrowed ? narrowedGradient : gradient;
  run(isNarrowed ? dtype : z_SV.dtype, { blocks: S, threads }, [z_SV, ...rows, { int: V }, { float: 1 / temperature }]);
  return isNarrowed ? viewAs(z_SV, dtype).narrow(1, 0, V) : z_SV;
}

const viewAs = op("aten::view.dtype");

const statistics = cudaKernel(
  "score_statistics",
  `
// max, sum of exp(z - max) and sum of z exp(z - max), joined over parts of a row.
struct Sums { float top, mass, moment; };
__device__ __forceinline__ Sums join(Sums a, Sums b) {
  float top = fmaxf(a.top, b.top);
  float wa = __expf(a.top - top), wb = __expf(b.top - top);
  return {top, a.mass * wa + b.mass * wb, a.moment * wa + b.moment * wb};
}
extern "C" __global__ void __launch_bounds__(512) score_statistics(
    const T* scores, const long long* targets, float* logprob, float* entropy, float* logNormalizer, int V, float scale) {
  const T* row = scores + (size_t)blockIdx.x * V;
  const Pack* packs = (const Pack*)row;
  Sums mine = {-3.0e38f, 0.0f, 0.0f};
  for (int i = threadIdx.x; i < V / 8; i += blockDim.x) {
    Pack p = packs[i];
    float z[8], top = mine.top;
#pragma unroll
    for (int k = 0; k < 8; k++) { z[k] = load(p.x[k]) * scale; top = fmaxf(top, z[k]); }
    float fade = __expf(mine.top - top);
    mine.mass *= fade; mine.moment *= fade; mine.top = top;
#pragma unroll
    for (int k = 0; k < 8; k++) { float e = __expf(z[k] - top); mine.mass += e; mine.moment += e * z[k]; }
  }
  __shared__ Sums parts[16];
  for (int step = 16; step > 0; step >>= 1) {
    Sums other = {__shfl_down_sync(~0u, mine.top, step), __shfl_down_sync(~0u, mine.mass, step), __shfl_down_sync(~0u, mine.moment, step)};
    mine = join(mine, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; w++) mine = join(mine, parts[w]);
    float logZ = mine.top + logf(mine.mass);
    logNormalizer[blockIdx.x] = logZ;
    logprob[blockIdx.x] = load(row[targets[blockIdx.x]]) * scale - logZ;
    entropy[blockIdx.x] = logZ - mine.moment / mine.mass;
  }
}`,
);

const gradient = cudaKernel(
  "score_gradient",
  `
extern "C" __global__ void __launch_bounds__(512) score_gradient(
    T* scores, const long long* targets, const float* logNormalizer, const float* entropy, const float* gradLogprob,
    const float* gradEntropy, int V, float scale) {
  Pack* packs = (Pack*)(scores + (size_t)blockIdx.x * V);
  float logZ = logNormalizer[blockIdx.x], H = entropy[blockIdx.x];
  float gl = gradLogprob[blockIdx.x], ge = gradEntropy[blockIdx.x];
  int target = (int)targets[blockIdx.x];
  for (int i = threadIdx.x; i < V / 8; i += blockDim.x) {
    Pack p = packs[i];
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float logp = load(p.x[k]) * scale - logZ;
      float d = -__expf(logp) * (gl + ge * (logp + H));
      if (i * 8 + k == target) d += gl;
      p.x[k] = store(d * scale);
    }
    packs[i] = p;
  }
}`,
);

const narrowedGradient = cudaKernel(
  "narrowed_score_gradient",
  `
struct alignas(16) Wide { float x[8]; };
extern "C" __global__ void __launch_bounds__(512) narrowed_score_gradient(
    float* scores, const long long* targets, const float* logNormalizer, const float* entropy, const float* gradLogprob,
    const float* gradEntropy, int V, float scale) {
  const Wide* wide = (const Wide*)(scores + (size_t)blockIdx.x * V);
  Pack* packs = (Pack*)(scores + (size_t)blockIdx.x * V);
  float logZ = logNormalizer[blockIdx.x], H = entropy[blockIdx.x];
  float gl = gradLogprob[blockIdx.x], ge = gradEntropy[blockIdx.x];
  int target = (int)targets[blockIdx.x];
  for (int start = 0; start < V / 8; start += blockDim.x) {
    int i = start + threadIdx.x;
    Pack p;
    if (i < V / 8) {
      Wide z = wide[i];
#pragma unroll
      for (int k = 0; k < 8; k++) {
        float logp = z.x[k] * scale - logZ;
        float d = -__expf(logp) * (gl + ge * (logp + H));
        if (i * 8 + k == target) d += gl;
        p.x[k] = store(d * scale);
      }
    }
    // What is written now lies over scores of this round and of earlier ones, which every thread has read.
    __syncthreads();
    if (i < V / 8) packs[i] = p;
  }
}`,
);
