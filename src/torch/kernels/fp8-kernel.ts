/** Rows into 8-bit floats and a scale each, as fp8.ts defines them. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** What kernels with 8-bit floats share: codes of two and of eight numbers, and the scale of a row. Needs compute capability 8.9. */
export const fp8Source = `
__device__ __forceinline__ unsigned encode2(float low, float high) {
  unsigned short codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}
__device__ __forceinline__ uint2 encode8(const float* x, float scale) {
  float y[8];
#pragma unroll
  for (int k = 0; k < 8; k++) y[k] = __fdiv_rn(x[k], scale);
  return make_uint2(encode2(y[0], y[1]) | encode2(y[2], y[3]) << 16, encode2(y[4], y[5]) | encode2(y[6], y[7]) << 16);
}
__device__ __forceinline__ float scaleOf(float largest) { return largest == 0.0f ? 1.0f : __fdiv_rn(largest, 448.0f); }
`;

/** [S, I] in any floating type, contiguous, to codes [S, I] and scales [S, 1]. I must be a multiple of 8. */
export function fp8RowsKernel(x_SI: Tensor): { readonly codes: Tensor; readonly scales: Tensor } {
  const [S, I] = x_SI.shape as [number, number];
  const { device, dtype } = x_SI;
  const codes = empty([S, I], { device, dtype: "uint8" });
  const scales = empty([S, 1], { device });
  kernel(dtype, { blocks: S, threads: threadsFor(I) }, [x_SI, codes, scales, { int: I / 8 }]);
  return { codes, scales };
}

/** Threads of a block that takes one row, eight values at a time. */
function threadsFor(width: number): number {
  return Math.min(512, 32 * Math.ceil(width / 256));
}

const kernel = cudaKernel(
  "fp8_rows",
  `${fp8Source}
extern "C" __global__ void fp8_rows(const Pack* in, uint2* codes, float* scales, int packs) {
  const Pack* row = in + (size_t)blockIdx.x * packs;
  float largest = 0.0f;
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack a = row[i];
#pragma unroll
    for (int k = 0; k < 8; k++) largest = fmaxf(largest, fabsf(load(a.x[k])));
  }
  __shared__ float warps[16];
  for (int step = 16; step > 0; step >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; i++) largest = fmaxf(largest, warps[i]);
  float scale = scaleOf(largest);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  uint2* out = codes + (size_t)blockIdx.x * packs;
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack a = row[i];
    float x[8];
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] = load(a.x[k]);
    out[i] = encode8(x, scale);
  }
}`,
);
