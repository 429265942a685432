/**
 * One step of AdamW for one tensor in one pass: moments are read, used and written on the way, in full or as 8-bit codes, a float32 copy of 16-bit weights
 * too, and the factor that bounds the norm of all gradients is taken along.
 */
import { tensor } from "../create.ts";
import type { AdamWSettings } from "../optim/adamw-update.ts";
import { BLOCK, codeValues } from "../optim/dynamic-codes.ts";
import { keep } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel, numProcessors } from "./cuda-kernel.ts";

const threads = 256;

/** A parameter with its gradient in one type, and its float32 copy, if there is one. */
interface Weights {
  readonly parameter: Tensor;
  readonly gradient: Tensor;
  readonly master: Tensor | null;
}

/** Moments as codes with a scale per block: see dynamic-codes.ts. */
export interface CodedMoment {
  readonly codes: Tensor;
  readonly scales: Tensor;
}

/** The factor is multiplied with the gradient, one element in float32; null is 1. Both are rounded to the type of the gradient, as where gradients are scaled in memory. `step` counts from 1. */
interface Step {
  readonly factor: Tensor | null;
  readonly step: number;
}

/** With moments in the type of the copy, or of the parameter without one. Sizes must be multiples of 8. */
export function adamwKernel_(
  { parameter, gradient, master }: Weights,
  [first, second]: readonly [Tensor, Tensor],
  step: Step,
  settings: AdamWSettings,
): void {
  const packs = parameter.numel / 8;
  const run = master === null ? plain.full : mastered.full;
  run(parameter.dtype, { blocks: Math.ceil(packs / threads), threads, overlaps: true }, [
    ...[master ?? parameter, parameter, gradient, first, second],
    ...scalars(packs, parameter, step, settings),
  ]);
}

/** With moments as codes, those of the second for its root. Sizes must be multiples of a block. */
export function codedAdamwKernel_(
  { parameter, gradient, master }: Weights,
  [first, second]: readonly [CodedMoment, CodedMoment],
  step: Step,
  settings: AdamWSettings,
): void {
  const numBlocks = parameter.numel / BLOCK;
  const blocks = Math.min(Math.ceil(numBlocks / (threads / 32)), 6 * numProcessors());
  const run = master === null ? plain.coded : mastered.coded;
  run(parameter.dtype, { blocks, threads }, [
    ...[master ?? parameter, parameter, gradient, first.codes, second.codes, first.scales, second.scales],
    ...[codeTable(parameter.device), ...scalars(numBlocks, parameter, step, settings)],
  ]);
}

function scalars(
  count: number,
  parameter: Tensor,
  { factor, step }: Step,
  { lr, betas: [beta1, beta2], eps, weightDecay }: AdamWSettings,
) {
  const floats = [1 - lr * weightDecay, beta1, 1 - beta1, beta2, 1 - beta2, lr / (1 - beta1 ** step)];
  return [
    ...[factor ?? parameter, { int: count }, { int: factor === null ? 0 : 1 }],
    ...[...floats, 1 / Math.sqrt(1 - beta2 ** step), eps].map((float) => ({ float })),
  ];
}

const tables = new Map<string, Tensor>();

/** What codes stand for, and the middles between those, which a search goes through: of signed numbers, then of unsigned ones. */
function codeTable(device: string): Tensor {
  const known = tables.get(device);
  if (known !== undefined) return known;
  const parts = (["signed", "unsigned"] as const).flatMap((sign) => {
    const values = codeValues(sign);
    return [...values, ...searchOrder(values.slice(1).map((value, i) => Math.fround(value + values[i]!) / 2))];
  });
  const made = keep(tensor(Float32Array.from(parts), [parts.length], { device }));
  tables.set(device, made);
  return made;
}

/** 255 numbers in the order in which a search by halves meets them, behind a place that it never visits: node i leads to 2 i and 2 i + 1. */
export function searchOrder(sorted: readonly number[]): number[] {
  const order = new Array<number>(sorted.length + 1).fill(0);
  let next = 0;
  const fill = (node: number): void => {
    if (node >= order.length) return;
    fill(2 * node);
    order[node] = sorted[next++]!;
    fill(2 * node + 1);
  };
  fill(1);
  return order;
}

const update = `
struct alignas(16) Weights { W x[8]; };
struct Settings { float keep, beta1, rest1, beta2, rest2, rate, spread, eps; };
__device__ __forceinline__ void advance(float& w, float d, float& mean, float& square, const Settings& s) {
  mean = s.beta1 * mean + s.rest1 * d;
  square = s.beta2 * square + s.rest2 * d * d;
  w = w * s.keep - s.rate * mean / (sqrtf(square) * s.spread + s.eps);
}
#define SETTINGS float keep, float beta1, float rest1, float beta2, float rest2, float rate, float spread, float eps`;

const fullSource = `${update}
extern "C" __global__ void __launch_bounds__(256) adamw(Weights* weight, Pack* parameter, const Pack* gradient, Weights* first, Weights* second,
                                                        const float* factor, int packs, int hasFactor, SETTINGS) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  Settings s = {keep, beta1, rest1, beta2, rest2, rate, spread, eps};
  awaitPrevious();
  Weights w = weight[i], m = first[i], v = second[i];
  Pack g = gradient[i];
  float scale = hasFactor ? load(store(*factor)) : 1.0f;
#pragma unroll
  for (int k = 0; k < 8; k++) {
    float value = loadWide(w.x[k]), mean = loadWide(m.x[k]), square = loadWide(v.x[k]);
    advance(value, load(store(load(g.x[k]) * scale)), mean, square, s);
    w.x[k] = storeWide(value);
    m.x[k] = storeWide(mean);
    v.x[k] = storeWide(square);
#ifdef MASTER
    g.x[k] = store(value);
#endif
  }
  weight[i] = w;
  first[i] = m;
  second[i] = v;
#ifdef MASTER
  parameter[i] = g;
#endif
}`;

// A warp has the 256 values of a scale, eight per lane.
const codedSource = `${update}
__device__ __forceinline__ float largest(float x) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
// The number of middles below x.
__device__ __forceinline__ unsigned codeOf(const float* middles, float x) {
  int node = 1;
#pragma unroll
  for (int level = 0; level < 8; level++) node = 2 * node + (middles[node] < x ? 1 : 0);
  return node - 256;
}
__device__ __forceinline__ unsigned codeAt(const uint2& codes, int k) { return ((k < 4 ? codes.x : codes.y) >> (k % 4 * 8)) & 255; }
extern "C" __global__ void __launch_bounds__(256) coded_adamw(
    Weights* weight, Pack* parameter, const Pack* gradient, uint2* first, uint2* second, float* firstScales, float* secondScales,
    const float* table, const float* factor, int numBlocks, int hasFactor, SETTINGS) {
  __shared__ float values[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) values[i] = table[i];
  __syncthreads();
  Settings s = {keep, beta1, rest1, beta2, rest2, rate, spread, eps};
  int lane = threadIdx.x % 32;
  float scale = hasFactor ? load(store(*factor)) : 1.0f;
  for (int block = blockIdx.x * 8 + threadIdx.x / 32; block < numBlocks; block += gridDim.x * 8) {
    size_t i = (size_t)block * 32 + lane;
    Weights w = weight[i];
    Pack g = gradient[i];
    uint2 firstCodes = first[i], secondCodes = second[i];
    float firstScale = firstScales[block], secondScale = secondScales[block], mean[8], root[8], top = 0.0f, topRoot = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      mean[k] = values[codeAt(firstCodes, k)] * firstScale;
      root[k] = values[512 + codeAt(secondCodes, k)] * secondScale;
      float value = loadWide(w.x[k]), square = root[k] * root[k];
      advance(value, load(store(load(g.x[k]) * scale)), mean[k], square, s);
      root[k] = sqrtf(square);
      top = fmaxf(top, fabsf(mean[k]));
      topRoot = fmaxf(topRoot, root[k]);
      w.x[k] = storeWide(value);
#ifdef MASTER
      g.x[k] = store(value);
#endif
    }
    weight[i] = w;
#ifdef MASTER
    parameter[i] = g;
#endif
    top = largest(top);
    topRoot = largest(topRoot);
    // A block of zeros has any scale.
    float perTop = top > 0.0f ? 1.0f / top : 1.0f, perRoot = topRoot > 0.0f ? 1.0f / topRoot : 1.0f;
    firstCodes = make_uint2(0, 0);
    secondCodes = make_uint2(0, 0);
#pragma unroll
    for (int k = 0; k < 8; k++) {
      unsigned code = codeOf(values + 256, mean[k] * perTop), rootCode = codeOf(values + 768, root[k] * perRoot);
      if (root[k] > 0.0f && rootCode == 0) rootCode = 1;
      if (k < 4) { firstCodes.x |= code << (k * 8); secondCodes.x |= rootCode << (k * 8); }
      else { firstCodes.y |= code << (k * 8 - 32); secondCodes.y |= rootCode << (k * 8 - 32); }
    }
    first[i] = firstCodes;
    second[i] = secondCodes;
    if (lane == 0) { firstScales[block] = top; secondScales[block] = topRoot; }
  }
}`;

const plainTypes = `
typedef T W;
__device__ __forceinline__ float loadWide(W x) { return load(x); }
__device__ __forceinline__ W storeWide(float x) { return store(x); }`;
const masterTypes = `
#define MASTER
typedef float W;
__device__ __forceinline__ float loadWide(W x) { return x; }
__device__ __forceinline__ W storeWide(float x) { return x; }`;

const kernelsOf = (types: string) => ({
  full: cudaKernel("adamw", `${types}${fullSource}`),
  coded: cudaKernel("coded_adamw", `${types}${codedSource}`),
});
const plain = kernelsOf(plainTypes);
const mastered = kernelsOf(masterTypes);
