/** The gradient of a matrix whose rows were looked up: every row written once, those of no token as zeros. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel, numProcessors } from "./cuda-kernel.ts";

/** Whether the kernel takes rows of this width. */
export function canSumRows(width: number): boolean {
  return width % 8 === 0;
}

/**
 * Gradients of tokens [S, D] to that of the matrix [V, D], summed in float32 and always in the same order. The tokens of row v are
 * order[starts[v]] to order[starts[v + 1] - 1]: order is int64, and starts int32 of V + 1 elements.
 */
export function embeddingGradientKernel(grad_SD: Tensor, order_S: Tensor, starts: Tensor): Tensor {
  const { dtype, device } = grad_SD;
  const [numRows, D] = [starts.size(0) - 1, grad_SD.size(1)];
  const gradient_VD = empty([numRows, D], { dtype, device });
  const blocks = Math.min(Math.ceil(numRows / 8), 8 * numProcessors());
  kernel(dtype, { blocks, threads: 256, overlaps: true }, [
    ...[grad_SD, order_S, starts, gradient_VD],
    ...[{ int: numRows }, { int: D / 8 }],
  ]);
  return gradient_VD;
}

// A warp has a row: most have no token, and some have a few. The warps of a block share the tokens of one that has many, as the end of a line does.
const kernel = cudaKernel(
  "embedding_gradient",
  `
constexpr int MANY = 32, WARPS = 8, HELD = 4;
struct Sums { float x[HELD][8]; };
// The sums of every step-th token from first on, for up to 1,024 columns: packs from start on that are 32 apart.
__device__ __forceinline__ Sums sumTokens(const Pack* grad, const long long* order, int first, int end, int step, int start, int packs) {
  Sums sums;
#pragma unroll
  for (int h = 0; h < HELD; h++)
#pragma unroll
    for (int k = 0; k < 8; k++) sums.x[h][k] = 0.0f;
#pragma unroll 2
  for (int i = first; i < end; i += step) {
    const Pack* row = grad + order[i] * packs;
#pragma unroll
    for (int h = 0; h < HELD; h++)
      if (start + 32 * h < packs) {
        Pack g = row[start + 32 * h];
#pragma unroll
        for (int k = 0; k < 8; k++) sums.x[h][k] += load(g.x[k]);
      }
  }
  return sums;
}
__device__ __forceinline__ void storeSums(Pack* row, const Sums& sums, int start, int packs) {
#pragma unroll
  for (int h = 0; h < HELD; h++)
    if (start + 32 * h < packs) {
      Pack y;
#pragma unroll
      for (int k = 0; k < 8; k++) y.x[k] = store(sums.x[h][k]);
      row[start + 32 * h] = y;
    }
}
extern "C" __global__ void __launch_bounds__(256) embedding_gradient(const Pack* grad, const long long* order, const int* starts, Pack* out,
                                                                     int numRows, int packs) {
  __shared__ Sums parts[WARPS][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  awaitPrevious();
  for (int base = blockIdx.x * WARPS; base < numRows; base += gridDim.x * WARPS) {
    int row = base + warp, first = row < numRows ? starts[row] : 0, end = row < numRows ? starts[row + 1] : 0;
    bool hasMany = end - first > MANY;
    if (row < numRows && !hasMany)
      for (int start = lane; start < packs; start += 32 * HELD)
        storeSums(out + (size_t)row * packs, sumTokens(grad, order, first, end, 1, start, packs), start, packs);
    if (!__syncthreads_or(hasMany)) continue;
    for (int shared = base; shared < min(base + WARPS, numRows); shared++) {
      first = starts[shared];
      end = starts[shared + 1];
      if (end - first <= MANY) continue;
      // All threads make as many turns, since they wait for each other.
      for (int tile = 0; tile < packs; tile += 32 * HELD) {
        parts[warp][lane] = sumTokens(grad, order, first + warp, end, WARPS, tile + lane, packs);
        __syncthreads();
        if (warp == 0) {
          Sums sums = parts[0][lane];
          for (int w = 1; w < WARPS; w++)
#pragma unroll
            for (int h = 0; h < HELD; h++)
#pragma unroll
              for (int k = 0; k < 8; k++) sums.x[h][k] += parts[w][lane].x[h][k];
          storeSums(out + (size_t)shared * packs, sums, tile + lane, packs);
        }
        __syncthreads();
      }
    }
  }
}`,
);
