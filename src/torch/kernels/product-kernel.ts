/**
 * The products of a decode step in a chain, on Hopper GPUs: each kernel copies its first weights into shared memory while the one before it
 * still runs, and does what comes after the product in the same pass.
 *
 * Norms are no kernels of their own. A row's norm is x * factor * weight, where the factor is known once the whole row is: whoever adds to
 * the residual stream leaves x * weight and the squares of its columns, and whoever multiplies with that scales its result by the factor.
 */
import { empty, emptyLike } from "../create.ts";
import { cudaProperties } from "../cuda.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";
import {
  type ProductKind,
  type ProductPlan,
  type ProductSizes,
  planProduct,
  rowsOfTile,
  stepWidth,
} from "./product-plan.ts";
import { productSource } from "./product-source.ts";
import type { StepScores } from "./score-tiles-kernel.ts";

/** The residual stream before a norm: x times the norm's weight, [B, D], and sums of squares of x that add up to a row's, [P, B], float32. */
interface UnscaledNorm {
  readonly scaled_BD: Tensor;
  readonly squares_PB: Tensor;
  readonly eps: number;
}

/** Whether this device has what the kernels need: copies of tiles, and products of four warps. */
export function hasProductKernels(): boolean {
  isHopper ??= cudaProperties().computeMajor === 9;
  return isHopper;
}

let isHopper: boolean | undefined;

/** Whether a matrix can be multiplied with. */
export function fitsProduct(weight_NI: Tensor): boolean {
  const [N, I] = weight_NI.shape as [number, number];
  return I % stepWidth === 0 && N % 8 === 0 && weight_NI.isContiguous && /^b?float16$/.test(weight_NI.dtype);
}

/** The number of sums that residualProduct_ leaves for each row of this product's output. */
export function numSquares(weight_DI: Tensor, rows: number): number {
  const [D, I] = weight_DI.shape as [number, number];
  return planProduct("residual", { inputs: I, outputs: D, rows }).numTiles;
}

/** What residualProduct_ leaves, of an x that nothing was added to. */
export function startNorm(x_BD: Tensor, weight_D: Tensor, eps: number, numParts: number): UnscaledNorm {
  const [B, D] = x_BD.shape as [number, number];
  const norm = { scaled_BD: emptyLike(x_BD), squares_PB: empty([numParts, B], { device: x_BD.device }), eps };
  start(x_BD.dtype, { blocks: B, threads: 128, overlaps: true }, [
    ...[x_BD, weight_D, norm.scaled_BD, norm.squares_PB],
    { int: numParts },
    { int: D / 8 },
  ]);
  return norm;
}

/** Rows of an embedding, [B, D], and what startNorm leaves of them, in one pass. Ids are int32. */
export function embedNorm(
  ids_B: Tensor,
  embedding_VD: Tensor,
  weight_D: Tensor,
  eps: number,
  numParts: number,
): { readonly x_BD: Tensor; readonly norm: UnscaledNorm } {
  const [B, D] = [ids_B.size(0), embedding_VD.size(1)];
  const { dtype, device } = embedding_VD;
  const x_BD = empty([B, D], { dtype, device });
  const norm = { scaled_BD: emptyLike(x_BD), squares_PB: empty([numParts, B], { device }), eps };
  embed(dtype, { blocks: B, threads: 128, overlaps: true }, [
    ...[embedding_VD, weight_D, norm.scaled_BD, norm.squares_PB],
    { int: numParts },
    { int: D / 8 },
    ...[ids_B, x_BD],
  ]);
  return { x_BD, norm };
}

/** The norm itself, [B, D]: x / sqrt(mean(x^2) + eps) * weight. */
export function endNorm(x_BD: Tensor, { squares_PB, eps }: UnscaledNorm, weight_D: Tensor): Tensor {
  const [B, D] = x_BD.shape as [number, number];
  const out_BD = emptyLike(x_BD);
  end(x_BD.dtype, { blocks: B, threads: 128, overlaps: true }, [
    ...[x_BD, weight_D, out_BD, squares_PB],
    { int: squares_PB.size(0) },
    { int: D / 8 },
    { float: eps },
  ]);
  return out_BD;
}

/** norm(x) w' + bias: [B, N]. */
export function scaledProduct(norm: UnscaledNorm, weight_ND: Tensor, bias_N: Tensor | null): Tensor {
  return normProduct("scaled", norm, weight_ND, bias_N);
}

/** silu(gate) * up of [gate | up] = norm(x) w': [B, N / 2]. Both are rounded to the type of x first, as one by one. */
export function gatedProduct(norm: UnscaledNorm, weight_ND: Tensor): Tensor {
  return normProduct("gated", norm, weight_ND, null);
}

/** norm(x) w' with its float32 sums as they are, [B, V], and their tiles for a draw at these temperatures. */
export function scoresProduct(norm: UnscaledNorm, weight_VD: Tensor, temperatures_B: Tensor): StepScores {
  const [B, D] = norm.scaled_BD.shape as [number, number];
  const { numTiles, columns } = planProduct("scores", { inputs: D, outputs: weight_VD.size(0), rows: B });
  const statistics = empty([B, numTiles, 4], { device: norm.scaled_BD.device });
  const scores_BV = normProduct("scores", norm, weight_VD, null, [temperatures_B, statistics]);
  return { scores_BV, tiles: { statistics, width: columns } };
}

function normProduct(
  kind: ProductKind,
  norm: UnscaledNorm,
  weight_ND: Tensor,
  bias_N: Tensor | null,
  further: readonly Tensor[] = [],
): Tensor {
  const { scaled_BD, squares_PB, eps } = norm;
  const [B, D] = scaled_BD.shape as [number, number];
  const N = weight_ND.size(0);
  const { device } = scaled_BD;
  const dtype = kind === "scores" ? "float32" : scaled_BD.dtype;
  const out = empty([B, kind === "gated" ? N / 2 : N], { dtype, device });
  const own = [bias_N ?? out, out, squares_PB, { float: eps }, { int: D }, ...further];
  launch(kind, scaled_BD, weight_ND, own, squares_PB.size(0), bias_N !== null);
  return out;
}

/** Adds y w' to x in place and leaves what the norm after it takes. Sums are rounded where separate operators would round them. */
export function residualProduct_(
  x_BD: Tensor,
  y_BI: Tensor,
  weight_DI: Tensor,
  { weight: weight_D, eps }: { readonly weight: Tensor; readonly eps: number },
): UnscaledNorm {
  const B = x_BD.size(0);
  const squares_PB = empty([numSquares(weight_DI, B), B], { device: x_BD.device });
  const norm = { scaled_BD: emptyLike(x_BD), squares_PB, eps };
  launch("residual", y_BI, weight_DI, [x_BD, weight_D, norm.scaled_BD, squares_PB], 1, false);
  return norm;
}

type Launch = ReturnType<typeof cudaKernel>;

function launch(
  kind: ProductKind,
  x_BI: Tensor,
  weight_NI: Tensor,
  own: Parameters<Launch>[2],
  numParts: number,
  hasBias: boolean,
): void {
  const [rows, inputs] = x_BI.shape as [number, number];
  const sizes = { inputs, outputs: weight_NI.size(0), rows };
  const plan = planProduct(kind, sizes);
  const { columns, groups, splits, tilesAtOnce, numRowTiles, stageRows, stages, sharedBytes } = plan;
  const xRows = rowsOfTile(groups, rows);
  const shape = { blocks: tilesAtOnce * numRowTiles * splits, threads: 128 * groups + 32, sharedBytes, overlaps: true };
  kernelFor(
    kind,
    sizes,
    plan,
    numParts,
    hasBias,
  )(x_BI.dtype, shape, [
    { tilesOf: x_BI, rows: xRows },
    { tilesOf: weight_NI, rows: columns },
    ...own,
    { int: rows },
    { int: numRowTiles },
    { int: xRows },
    { int: stageRows },
    { int: stages },
  ]);
}

const kernels = new Map<string, Launch>();

function kernelFor(
  kind: ProductKind,
  sizes: ProductSizes,
  plan: ProductPlan,
  numParts: number,
  hasBias: boolean,
): Launch {
  const { inputs, outputs } = sizes;
  const key = `${kind} ${inputs} ${outputs} ${plan.groups} ${numParts} ${hasBias}`;
  let kernel = kernels.get(key);
  if (kernel === undefined) {
    kernel = cudaKernel("product", productSource(kind, sizes, plan, numParts, hasBias));
    kernels.set(key, kernel);
  }
  return kernel;
}

const startSource = `
extern "C" __global__ void start_norm(const Pack* from, const Pack* weight, Pack* scaled, float* squares, int parts, int packs
#ifdef EMBEDS
                                      , const int* ids, Pack* x
#endif
) {
  // The input of the step is there before the kernels behind this one start: attention reads where its keys are before it waits.
  awaitPrevious();
  letNextStart();
  float sum = 0.0f;
#ifdef EMBEDS
  from += (size_t)ids[blockIdx.x] * packs;
#else
  from += (size_t)blockIdx.x * packs;
#endif
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack a = from[i], w = weight[i], y;
#pragma unroll
    for (int k = 0; k < 8; k++) { float value = load(a.x[k]); sum += value * value; y.x[k] = store(value * load(w.x[k])); }
    scaled[(size_t)blockIdx.x * packs + i] = y;
#ifdef EMBEDS
    x[(size_t)blockIdx.x * packs + i] = a;
#endif
  }
  __shared__ float warps[4];
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = warps[0] + warps[1] + warps[2] + warps[3];
  for (int p = threadIdx.x; p < parts; p += blockDim.x) squares[(size_t)p * gridDim.x + blockIdx.x] = p == 0 ? total : 0.0f;
}`;

const start = cudaKernel("start_norm", startSource);
const embed = cudaKernel("start_norm", `#define EMBEDS\n${startSource}`);

const end = cudaKernel(
  "end_norm",
  `
extern "C" __global__ void end_norm(const Pack* x, const Pack* weight, Pack* out, const float* squares, int parts, int packs, float eps) {
  letNextStart();
  awaitPrevious();
  float total = 0.0f;
  // Every warp adds them up, its lanes side by side.
  for (int i = threadIdx.x % 32; i < parts; i += 32) total += __ldcg(squares + (size_t)i * gridDim.x + blockIdx.x);
  for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(~0u, total, step);
  float factor = rsqrtf(total / (packs * 8) + eps);
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack a = x[(size_t)blockIdx.x * packs + i], w = weight[i], y;
#pragma unroll
    for (int k = 0; k < 8; k++) y.x[k] = store(load(a.x[k]) * factor * load(w.x[k]));
    out[(size_t)blockIdx.x * packs + i] = y;
  }
}`,
);
