/** The sums of columns of a few hundred rows: what the blocks of another kernel have added up each for itself. */
import { empty } from "../create.ts";
import type { DType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** [P, D] in float32 to [D], rounded to `dtype`. */
export function columnSumsKernel(parts_PD: Tensor, dtype: DType): Tensor {
  const [P, D] = parts_PD.shape as [number, number];
  const out_D = empty([D], { dtype, device: parts_PD.device });
  kernel(dtype, { blocks: Math.ceil(D / 32), threads: 512, overlaps: true }, [parts_PD, out_D, { int: P }, { int: D }]);
  return out_D;
}

const kernel = cudaKernel(
  "column_sums",
  `
extern "C" __global__ void __launch_bounds__(512) column_sums(const float* parts, T* out, int numRows, int D) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
  float sum = 0.0f;
  awaitPrevious();
  if (column < D)
#pragma unroll 8
    for (int row = warp; row < numRows; row += 16) sum += parts[(size_t)row * D + column];
  __shared__ float sums[16][32];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= D) return;
#pragma unroll
  for (int w = 1; w < 16; w++) sum += sums[w][lane];
  out[column] = store(sum);
}`,
);
