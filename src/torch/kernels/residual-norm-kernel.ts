/**
 * Residual sum and root-mean-square norm as training needs them: forward in one pass, and the gradient of both in one more.
 *
 * One to eight warps hold a row in registers. In the backward pass they go through many rows, so that the gradient of the weight is added up
 * in registers too: a block leaves one row of sums, and a last kernel adds those of all blocks, always in the same order.
 */
import { empty, emptyLike } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { columnSumsKernel } from "./column-sums-kernel.ts";
import { cudaKernel, numProcessors } from "./cuda-kernel.ts";

/** Columns of a row that a warp holds at most, threads of a block, and blocks that run at a time on a multiprocessor. */
interface RowPlan {
  readonly columns: number;
  readonly threads: number;
  readonly blocks: number;
}

const plans: { readonly forward: RowPlan; readonly backward: RowPlan } = {
  forward: { columns: 1024, threads: 128, blocks: 3 },
  backward: { columns: 512, threads: 256, blocks: 2 },
};

/** Whether the kernels fit rows of this width. */
export function canNormRows(width: number): boolean {
  return width % 8 === 0 && width <= 4096;
}

/** The sum x + delta, rounded to the type of x, and its norm times the weight. Without a delta the sum is x itself. All are [S, D]. */
export function residualNormKernel(
  x_SD: Tensor,
  delta_SD: Tensor | null,
  weight_D: Tensor,
  eps: number,
  plan = plans.forward,
): [sum_SD: Tensor, normed_SD: Tensor] {
  const [S, D] = x_SD.shape as [number, number];
  const sum_SD = delta_SD === null ? x_SD : emptyLike(x_SD);
  const normed_SD = emptyLike(x_SD);
  const { run, rowsPerBlock } = kernelFor("residual_norm", D, plan);
  run(x_SD.dtype, { blocks: Math.ceil(S / rowsPerBlock), threads: plan.threads, overlaps: true }, [
    ...[x_SD, delta_SD ?? x_SD, weight_D, sum_SD, normed_SD],
    ...[{ int: S }, { float: eps }, { int: delta_SD === null ? 0 : 1 }],
  ]);
  return [sum_SD, normed_SD];
}

/** The gradients of the sum, to which that of the residual stream is added where there is one, and of the weight. */
export function residualNormBackwardKernel(
  gradNormed_SD: Tensor,
  gradSum_SD: Tensor | null,
  sum_SD: Tensor,
  weight_D: Tensor,
  eps: number,
  plan = plans.backward,
): [gradSum_SD: Tensor, gradWeight_D: Tensor] {
  const [S, D] = sum_SD.shape as [number, number];
  const { device } = sum_SD;
  const gradient_SD = emptyLike(sum_SD);
  const { run, rowsPerBlock } = kernelFor("residual_norm_backward", D, plan);
  const blocks = Math.min(Math.ceil(S / rowsPerBlock), plan.blocks * numProcessors());
  const parts_PD = empty([blocks, D], { device });
  run(sum_SD.dtype, { blocks, threads: plan.threads, overlaps: true }, [
    ...[gradNormed_SD, gradSum_SD ?? gradNormed_SD, sum_SD, weight_D, gradient_SD, parts_PD],
    ...[{ int: S }, { float: eps }, { int: gradSum_SD === null ? 0 : 1 }],
  ]);
  return [gradient_SD, columnSumsKernel(parts_PD, weight_D.dtype)];
}

interface RowKernel {
  readonly run: ReturnType<typeof cudaKernel>;
  readonly rowsPerBlock: number;
}

const kernels = new Map<string, RowKernel>();

function kernelFor(name: keyof typeof sources, D: number, { columns, threads, blocks }: RowPlan): RowKernel {
  const key = [name, D, columns, threads, blocks].join(" ");
  const known = kernels.get(key);
  if (known !== undefined) return known;
  const warps = [1, 2, 4, 8].find((count) => D <= columns * count && 32 * count <= threads) ?? threads / 32;
  const rowsPerBlock = threads / 32 / warps;
  const constants = `constexpr int PACKS = ${D / 8}, WARPS = ${warps}, ROWS = ${rowsPerBlock}, D = ${D}, THREADS = ${threads};
constexpr int BLOCKS = sizeof(T) == 2 ? ${blocks} : 1;
`;
  const made = { run: cudaKernel(name, `${constants}${rowSource}${sources[name]}`), rowsPerBlock };
  kernels.set(key, made);
  return made;
}

const rowSource = `
constexpr int LANES = 32 * WARPS, HELD = (PACKS + LANES - 1) / LANES;
// The sums of two values over the threads of a row. Those of the row before may still be read meanwhile: there is room for both.
__device__ __forceinline__ float2 rowSums(float a, float b, float2 (*parts)[8], int group, int turn) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    a += __shfl_xor_sync(~0u, a, step);
    b += __shfl_xor_sync(~0u, b, step);
  }
  if (WARPS == 1) return make_float2(a, b);
  if (threadIdx.x % 32 == 0) parts[turn][threadIdx.x / 32] = make_float2(a, b);
  asm volatile("bar.sync %0, %1;" :: "r"(group + 1), "n"(LANES) : "memory");
  float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    float2 part = parts[turn][group * WARPS + w];
    sum.x += part.x;
    sum.y += part.y;
  }
  return sum;
}
// Packs of a row that a thread holds are LANES apart; the last of them may lie behind its end.
__device__ __forceinline__ bool isInside(int lane, int h) { return (h + 1) * LANES <= PACKS || lane + h * LANES < PACKS; }`;

const forwardSource = `
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) residual_norm(const Pack* x, const Pack* delta, const Pack* weight, Pack* sum,
                                                                Pack* out, int numRows, float eps, int hasDelta) {
  __shared__ float2 parts[2][8];
  int group = threadIdx.x / LANES, lane = threadIdx.x % LANES, row = blockIdx.x * ROWS + group;
  if (row >= numRows) return;
  size_t start = (size_t)row * PACKS + lane;
  Pack a[HELD], b[HELD], w[HELD];
  awaitPrevious();
#pragma unroll
  for (int h = 0; h < HELD; h++)
    if (isInside(lane, h)) {
      a[h] = x[start + h * LANES];
      if (hasDelta) b[h] = delta[start + h * LANES];
      w[h] = weight[lane + h * LANES];
    }
  float squares = 0.0f;
#pragma unroll
  for (int h = 0; h < HELD; h++)
    if (isInside(lane, h)) {
#pragma unroll
      for (int k = 0; k < 8; k++) {
        if (hasDelta) a[h].x[k] = store(load(a[h].x[k]) + load(b[h].x[k]));
        float value = load(a[h].x[k]);
        squares += value * value;
      }
      if (hasDelta) sum[start + h * LANES] = a[h];
    }
  float scale = rsqrtf(rowSums(squares, 0.0f, parts, group, 0).x / D + eps);
#pragma unroll
  for (int h = 0; h < HELD; h++)
    if (isInside(lane, h)) {
      Pack y;
#pragma unroll
      for (int k = 0; k < 8; k++) y.x[k] = store(load(a[h].x[k]) * scale * load(w[h].x[k]));
      out[start + h * LANES] = y;
    }
}`;

// With r = 1 / sqrt(mean(x^2) + eps): dx = r w dy - x r^3 mean(w dy x), and dw is the sum of dy x r over rows.
const backwardSource = `
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
residual_norm_backward(const Pack* grad, const Pack* gradSum, const Pack* sum, const Pack* weight, Pack* out, float* parts,
                       int numRows, float eps, int hasGradSum) {
  __shared__ float2 rowParts[2][8];
  __shared__ float4 blockSums[ROWS == 1 ? 1 : 2 * PACKS * (ROWS / 2)];
  int group = threadIdx.x / LANES, lane = threadIdx.x % LANES, turn = 0;
  Pack w[HELD];
  float own[HELD][8];
  letNextStart();
  awaitPrevious();
#pragma unroll
  for (int h = 0; h < HELD; h++) {
    if (isInside(lane, h)) w[h] = weight[lane + h * LANES];
#pragma unroll
    for (int k = 0; k < 8; k++) own[h][k] = 0.0f;
  }
  for (int row = blockIdx.x * ROWS + group; row < numRows; row += gridDim.x * ROWS, turn ^= 1) {
    size_t start = (size_t)row * PACKS + lane;
    Pack x[HELD], d[HELD], g[HELD];
#pragma unroll
    for (int h = 0; h < HELD; h++)
      if (isInside(lane, h)) {
        x[h] = sum[start + h * LANES];
        d[h] = grad[start + h * LANES];
        if (hasGradSum) g[h] = gradSum[start + h * LANES];
      }
    float squares = 0.0f, slope = 0.0f;
#pragma unroll
    for (int h = 0; h < HELD; h++)
      if (isInside(lane, h))
#pragma unroll
        for (int k = 0; k < 8; k++) {
          float value = load(x[h].x[k]);
          squares += value * value;
          slope += value * load(d[h].x[k]) * load(w[h].x[k]);
        }
    float2 sums = rowSums(squares, slope, rowParts, group, turn);
    float scale = rsqrtf(sums.x / D + eps), pull = sums.y / D * scale * scale * scale;
#pragma unroll
    for (int h = 0; h < HELD; h++)
      if (isInside(lane, h)) {
        Pack y;
#pragma unroll
        for (int k = 0; k < 8; k++) {
          float value = load(x[h].x[k]), dy = load(d[h].x[k]);
          own[h][k] += dy * (value * scale);
          float dx = dy * load(w[h].x[k]) * scale - value * pull;
          y.x[k] = store(hasGradSum ? dx + load(g[h].x[k]) : dx);
        }
        out[start + h * LANES] = y;
      }
  }
  // The upper half of the groups hands its sums to the lower half, until one has them all.
#pragma unroll
  for (int half = ROWS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group >= half && group < 2 * half) {
      float4* to = blockSums + (group - half) * 2 * PACKS;
#pragma unroll
      for (int h = 0; h < HELD; h++)
        if (isInside(lane, h)) {
          to[lane + h * LANES] = make_float4(own[h][0], own[h][1], own[h][2], own[h][3]);
          to[PACKS + lane + h * LANES] = make_float4(own[h][4], own[h][5], own[h][6], own[h][7]);
        }
    }
    __syncthreads();
    if (group < half) {
      const float4* from = blockSums + group * 2 * PACKS;
#pragma unroll
      for (int h = 0; h < HELD; h++)
        if (isInside(lane, h)) {
          float4 low = from[lane + h * LANES], high = from[PACKS + lane + h * LANES];
          own[h][0] += low.x; own[h][1] += low.y; own[h][2] += low.z; own[h][3] += low.w;
          own[h][4] += high.x; own[h][5] += high.y; own[h][6] += high.z; own[h][7] += high.w;
        }
    }
  }
  if (group > 0) return;
  float4* to = (float4*)(parts + (size_t)blockIdx.x * D);
#pragma unroll
  for (int h = 0; h < HELD; h++)
    if (isInside(lane, h)) {
      to[2 * (lane + h * LANES)] = make_float4(own[h][0], own[h][1], own[h][2], own[h][3]);
      to[2 * (lane + h * LANES) + 1] = make_float4(own[h][4], own[h][5], own[h][6], own[h][7]);
    }
}`;

const sources = { residual_norm: forwardSource, residual_norm_backward: backwardSource } as const;
