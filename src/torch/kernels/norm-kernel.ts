/** Residual sum and root-mean-square norm in one pass: what stands between two parts of a decoder. */
import { emptyLike } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** Whether the kernel fits rows of this width: a thread holds eight values, a block one row. */
export function canAddNorm(width: number): boolean {
  return width % 8 === 0 && width <= 8192;
}

/**
 * Adds `delta` to `x` in place and returns x / sqrt(mean(x^2) + eps) * weight. x is [S, D]; delta is [S, D] in the type of x,
 * or [parts, S, D] in float32, of which the sum is meant: a product that was cut along its inner dimension. Sums are rounded
 * to the type of x where separate operators would round them.
 */
export function addNormKernel_(x_SD: Tensor, delta: Tensor, weight_D: Tensor, eps: number): Tensor {
  const [S, D] = x_SD.shape as [number, number];
  const out_SD = emptyLike(x_SD);
  kernel(x_SD.dtype, { blocks: S, threads: 32 * Math.ceil(D / 256) }, [
    x_SD,
    delta,
    weight_D,
    out_SD,
    { int: delta.shape.length === 3 ? delta.size(0) : 0 },
    { int: D / 8 },
    { float: eps },
  ]);
  return out_SD;
}

const kernel = cudaKernel(
  "add_norm",
  `
extern "C" __global__ void add_norm(Pack* x, const void* delta, const Pack* weight, Pack* out, int parts, int packs,
                                    float eps) {
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
