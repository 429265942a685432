/**
 * All that a loss needs of a row of scores, and the gradient of that row, in one kernel: scores are read once and the gradient is written once.
 *
 * The blocks of a cluster hold a row in their registers and tell each other their sums through shared memory. For losses that look at
 * log-probabilities alone; where the entropy has a gradient too, see score-kernel.ts.
 */
import { empty } from "../create.ts";
import { bytesOf, type DType } from "../dtype.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** Threads of a block, and pieces of 16 bytes that each of them holds where a larger cluster could take the row instead. */
interface ScoreRowPlan {
  readonly threads: number;
  readonly pieces: number;
}

const usual: ScoreRowPlan = { threads: 1024, pieces: 10 };

/** How a row is divided: blocks of its cluster, and pieces per thread. */
function divide(V: number, bytes: number, { threads, pieces }: ScoreRowPlan) {
  const piecesIn = (cluster: number) => Math.ceil((V * bytes) / 16 / threads / cluster);
  const cluster = [1, 2, 4, 8].find((size) => piecesIn(size) <= pieces) ?? 8;
  return { cluster, pieces: piecesIn(cluster) };
}

/** Whether the kernel takes rows of V such scores: a thread holds 18 pieces at most. */
export function fitsScoreRow(V: number, dtype: DType): boolean {
  return V % 8 === 0 && divide(V, bytesOf(dtype), usual).pieces <= 18;
}

/**
 * Overwrites each row of scores with gradLogprob (onehot(target) - p) / temperature, p = softmax(scores / temperature), and gives log p(target), the
 * entropy and log Z of every row, in float32. Without `gradLogprob_S` it is 1 for every row. The gradient is in `dtype`, which may be narrower
 * than float32 scores: it then lies in the first half of each row's memory, and its rows are as far apart as they were.
 */
export function scoreRowKernel_(
  z_SV: Tensor,
  targets_S: Tensor,
  gradLogprob_S: Tensor | null,
  temperature: number,
  dtype: DType,
  plan = usual,
): {
  readonly gradient_SV: Tensor;
  readonly statistics: [logprob_S: Tensor, entropy_S: Tensor, logNormalizer_S: Tensor];
} {
  const [S, V] = z_SV.shape as [number, number];
  const make = () => empty([S], { device: z_SV.device });
  const statistics: [Tensor, Tensor, Tensor] = [make(), make(), make()];
  const { run, cluster } = kernelFor(V, z_SV.dtype, plan);
  run(dtype, { blocks: S * cluster, threads: plan.threads }, [
    ...[z_SV, targets_S, gradLogprob_S ?? statistics[0], ...statistics],
    ...[{ float: 1 / temperature }, { int: gradLogprob_S === null ? 0 : 1 }],
  ]);
  const isNarrowed = z_SV.dtype !== dtype;
  return { gradient_SV: isNarrowed ? viewAs(z_SV, dtype).narrow(1, 0, V) : z_SV, statistics };
}

const viewAs = op("aten::view.dtype");

const kernels = new Map<string, { readonly run: ReturnType<typeof cudaKernel>; readonly cluster: number }>();

function kernelFor(V: number, dtype: DType, plan: ScoreRowPlan) {
  const isWide = dtype === "float32";
  const key = [V, isWide, plan.threads, plan.pieces].join(" ");
  const known = kernels.get(key);
  if (known !== undefined) return known;
  const { cluster, pieces } = divide(V, bytesOf(dtype), plan);
  const constants = `constexpr int V = ${V}, CLUSTER = ${cluster}, PIECES = ${pieces}, THREADS = ${plan.threads};
constexpr int BLOCKS = ${Math.max(1, Math.floor(65536 / (pieces * 4 + 24) / plan.threads))};
typedef ${isWide ? "float" : "T"} Z;
__device__ __forceinline__ float value(Z x) { return ${isWide ? "x" : "load(x)"}; }
// Score k of 16 bytes: words stay as they are, since 16-bit values would take a register each.
__device__ __forceinline__ float score(const uint4& p, int k) {
  ${
    isWide
      ? "return __uint_as_float(k == 0 ? p.x : k == 1 ? p.y : k == 2 ? p.z : p.w);"
      : "unsigned w = k < 2 ? p.x : k < 4 ? p.y : k < 6 ? p.z : p.w;\n  return load((T)(k % 2 == 0 ? w & 0xffff : w >> 16));"
  }
}
#define CLUSTER_SIZE ${cluster}
`;
  const made = { run: cudaKernel("score_row", `${constants}${source}`), cluster };
  kernels.set(key, made);
  return made;
}

const source = `
constexpr int EACH = 16 / sizeof(Z), ALL = V / EACH, STRIDE = CLUSTER * THREADS;
constexpr float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;
struct alignas(EACH * sizeof(T)) Narrow { T x[EACH]; };
// In powers of two: max, sum of 2^(z - max) and sum of z 2^(z - max), joined over parts of a row.
struct Sums { float top, mass, moment; };
__device__ __forceinline__ float power(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ __forceinline__ Sums join(Sums a, Sums b) {
  float top = fmaxf(a.top, b.top);
  float wa = power(a.top - top), wb = power(b.top - top);
  return {top, a.mass * wa + b.mass * wb, a.moment * wa + b.moment * wb};
}
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
#if CLUSTER_SIZE > 1
__cluster_dims__(CLUSTER_SIZE, 1, 1)
#endif
score_row(Z* scores, const long long* targets, const float* gradLogprob, float* logprob, float* entropy,
          float* logNormalizer, float scale, int isWeighted) {
  __shared__ Sums warps[THREADS / 32];
  __shared__ Sums blocks[CLUSTER];
#if CLUSTER_SIZE > 1
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  int row = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, first = rank * THREADS + threadIdx.x;
  Z* start = scores + (size_t)row * V;
  uint4 z[PIECES];
#pragma unroll
  for (int i = 0; i < PIECES; i++)
    if (first + i * STRIDE < ALL) z[i] = ((const uint4*)start)[first + i * STRIDE];
  int target = (int)targets[row];
  // One thread has the target among its scores.
  bool isChosen = target / EACH % STRIDE == first;
  float chosen = isChosen ? value(start[target]) : 0.0f, weight = (isWeighted ? gradLogprob[row] : 1.0f) * scale, factor = scale * LOG2E;
  Sums mine = {-3.0e38f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < PIECES; i++)
    if (first + i * STRIDE < ALL)
#pragma unroll
      for (int k = 0; k < EACH; k++) mine.top = fmaxf(mine.top, score(z[i], k));
  mine.top = fmaxf(mine.top * factor, -3.0e38f);
#pragma unroll
  for (int i = 0; i < PIECES; i++)
    if (first + i * STRIDE < ALL)
#pragma unroll
      for (int k = 0; k < EACH; k++) {
        float x = score(z[i], k) * factor - mine.top, e = power(x);
        mine.mass += e;
        mine.moment += e * x;
      }
  mine.moment += mine.top * mine.mass;
#pragma unroll
  for (int step = 16; step > 0; step >>= 1)
    mine = join(mine, {__shfl_xor_sync(~0u, mine.top, step), __shfl_xor_sync(~0u, mine.mass, step),
                       __shfl_xor_sync(~0u, mine.moment, step)});
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    mine = warps[threadIdx.x % (THREADS / 32)];
#pragma unroll
    for (int step = THREADS / 64; step > 0; step >>= 1)
      mine = join(mine, {__shfl_xor_sync(~0u, mine.top, step), __shfl_xor_sync(~0u, mine.mass, step),
                         __shfl_xor_sync(~0u, mine.moment, step)});
  }
#if CLUSTER_SIZE > 1
  // All blocks have begun, so that their shared memory can be written; then all have told all others what they found.
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x < CLUSTER) {
    unsigned own = (unsigned)__cvta_generic_to_shared(&blocks[rank]), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"((int)threadIdx.x));
    asm volatile("st.shared::cluster.f32 [%0], %1;\\nst.shared::cluster.f32 [%0 + 4], %2;\\nst.shared::cluster.f32 [%0 + 8], %3;"
                 :: "r"(there), "f"(mine.top), "f"(mine.mass), "f"(mine.moment) : "memory");
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  if (threadIdx.x == 0) blocks[0] = mine;
  __syncthreads();
#endif
  Sums all = blocks[0];
#pragma unroll
  for (int b = 1; b < CLUSTER; b++) all = join(all, blocks[b]);
  float logZ = all.top + log2f(all.mass);
  if (first == 0) {
    logNormalizer[row] = logZ * LN2;
    entropy[row] = (logZ - all.moment / all.mass) * LN2;
  }
#pragma unroll
  for (int i = 0; i < PIECES; i++)
    if (first + i * STRIDE < ALL) {
      Narrow d;
#pragma unroll
      for (int k = 0; k < EACH; k++) d.x[k] = store(-weight * power(score(z[i], k) * factor - logZ));
      ((Narrow*)start)[first + i * STRIDE] = d;
    }
  if (!isChosen) return;
  logprob[row] = chosen * scale - logZ * LN2;
  ((T*)start)[target] = store(weight - weight * power(chosen * factor - logZ));
}`;
