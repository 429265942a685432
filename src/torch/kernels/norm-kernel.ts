/**
 * Residual sum and root-mean-square norm in one pass: what stands between two parts of a decoder.
 *
 * The pass moves little, so the memory is idle meanwhile: it can be told to bring what comes next closer.
 */
import { emptyLike } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** Whether the kernel fits rows of this width: a thread holds eight values, a block one row. */
export function canAddNorm(width: number): boolean {
  return width % 8 === 0 && width <= 8192;
}

/** What is read next: up to two whole matrices, and the first cache blocks of every row of the batch. */
export interface ReadNext {
  readonly matrices: readonly [Tensor, Tensor];
  readonly paged?: {
    readonly keys: Tensor;
    readonly values: Tensor;
    readonly table_BM: Tensor;
    readonly positions_B: Tensor;
  };
}

/**
 * Adds `delta` to `x` in place and returns x / sqrt(mean(x^2) + eps) * weight. x is [S, D]; delta is [S, D] in the type of x,
 * or [parts, S, D] in float32, of which the sum is meant: a product that was cut along its inner dimension. Sums are rounded
 * to the type of x where separate operators would round them.
 */
export function addNormKernel_(x_SD: Tensor, delta: Tensor, weight_D: Tensor, eps: number, next?: ReadNext): Tensor {
  const [S, D] = x_SD.shape as [number, number];
  const out_SD = emptyLike(x_SD);
  const threads = 32 * Math.ceil(D / 256);
  const [first, second] = next?.matrices ?? [x_SD, x_SD];
  const { keys, values, table_BM, positions_B } = next?.paged ?? {
    keys: x_SD,
    values: x_SD,
    table_BM: x_SD,
    positions_B: x_SD,
  };
  const chunks = (matrix: Tensor) => ({ int: next === undefined ? 0 : Math.floor((matrix.numel * 2) / chunkBytes) });
  const blocks = next?.paged === undefined ? 0 : Math.floor(cachedBytes / (S * 2 * blockBytes(keys)));
  kernel(x_SD.dtype, { blocks: S, threads }, [
    ...[x_SD, delta, weight_D, out_SD],
    { int: delta.shape.length === 3 ? delta.size(0) : 0 },
    { int: D / 8 },
    { float: eps },
    first,
    chunks(first),
    second,
    chunks(second),
    ...[keys, values, table_BM, positions_B],
    { int: next?.paged === undefined ? 0 : table_BM.size(1) },
    { int: blocks },
    { int: next?.paged === undefined ? 0 : blockBytes(keys) },
  ]);
  return out_SD;
}

/** Bytes that one instruction asks for. */
const chunkBytes = 4096;

/** What of the cache is worth asking for: it shares the second-level cache with the weights on their way. */
const cachedBytes = 24e6;

/** Bytes of one block of 16-bit keys [blocks, blockSize, G, K]. */
function blockBytes(keys: Tensor): number {
  const [, blockSize, G, K] = keys.shape as [number, number, number, number];
  return 2 * blockSize * G * K;
}

const kernel = cudaKernel(
  "add_norm",
  `
__device__ __forceinline__ void ask(const char* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(from), "r"(bytes));
#endif
}
extern "C" __global__ void add_norm(Pack* x, const void* delta, const Pack* weight, Pack* out, int parts, int packs,
    float eps, const char* first, int firstChunks, const char* second, int secondChunks, const char* keys,
    const char* values, const int* table, const int* positions, int tableWidth, int blocks, int blockBytes) {
  size_t at = (size_t)blockIdx.x * packs + threadIdx.x;
  bool isInside = threadIdx.x < packs;
  float value[8], squares = 0.0f;
  Pack w;
  if (isInside) {
    Pack a = x[at];
    w = weight[threadIdx.x];
    float sum[8];
    if (parts == 0) {
      Pack b = ((const Pack*)delta)[at];
#pragma unroll
      for (int k = 0; k < 8; k++) sum[k] = load(b.x[k]);
    } else {
#pragma unroll
      for (int k = 0; k < 8; k++) sum[k] = 0.0f;
#pragma unroll 4
      for (int j = 0; j < parts; j++) {
        const float4* b = (const float4*)delta + ((size_t)j * gridDim.x * packs + at) * 2;
        float4 low = b[0], high = b[1];
        sum[0] += low.x; sum[1] += low.y; sum[2] += low.z; sum[3] += low.w;
        sum[4] += high.x; sum[5] += high.y; sum[6] += high.z; sum[7] += high.w;
      }
#pragma unroll
      for (int k = 0; k < 8; k++) sum[k] = load(store(sum[k]));
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
      a.x[k] = store(load(a.x[k]) + sum[k]);
      value[k] = load(a.x[k]);
      squares += value[k] * value[k];
    }
    x[at] = a;
  }
  int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (int i = thread; i < firstChunks; i += threads) ask(first + (size_t)i * ${chunkBytes}, ${chunkBytes});
  for (int i = thread; i < secondChunks; i += threads) ask(second + (size_t)i * ${chunkBytes}, ${chunkBytes});
  if (blocks > 0) {
    int count = min(blocks, positions[blockIdx.x] / 16 + 1);
    for (int i = threadIdx.x; i < 2 * count; i += blockDim.x) {
      int block = table[(size_t)blockIdx.x * tableWidth + i / 2];
      ask((i % 2 == 0 ? keys : values) + (size_t)block * blockBytes, blockBytes);
    }
  }
  __shared__ float warps[32];
  for (int step = 16; step > 0; step >>= 1) squares += __shfl_xor_sync(~0u, squares, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < blockDim.x / 32; i++) total += warps[i];
  if (!isInside) return;
  float scale = rsqrtf(total / (packs * 8) + eps);
  Pack y;
#pragma unroll
  for (int k = 0; k < 8; k++) y.x[k] = store(value[k] * scale * load(w.x[k]));
  out[at] = y;
}`,
);
