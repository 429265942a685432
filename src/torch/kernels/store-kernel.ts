/** What comes between the heads of new tokens and attention over a cache, in one pass: rotate queries and keys, put keys and values in their slots. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";
import { isRotatable } from "./rotate-kernel.ts";

const threads = 256;

/** Heads of new tokens: [S, H, K], [S, G, K], [S, G, K]. */
interface StoredHeads {
  readonly q_SHK: Tensor;
  readonly k_SGK: Tensor;
  readonly v_SGK: Tensor;
}

/** The cache of a layer, a token per row, [slots, G, K], and the slots of the new tokens, [S], int32. */
interface CacheSlots {
  readonly keySlots: Tensor;
  readonly valueSlots: Tensor;
  readonly slots_S: Tensor;
}

/** Whether the kernel can read these heads. */
export function canStore({ q_SHK, k_SGK, v_SGK }: StoredHeads): boolean {
  return [q_SHK, k_SGK, v_SGK].every(isRotatable);
}

/** Rotated queries and keys, contiguous; keys and values are in the cache then. cos and sin are [S, K/2] in float32. */
export function storeKernel(
  { q_SHK, k_SGK, v_SGK }: StoredHeads,
  { cos_SK, sin_SK }: { readonly cos_SK: Tensor; readonly sin_SK: Tensor },
  { keySlots, valueSlots, slots_S }: CacheSlots,
): { readonly q_SHK: Tensor; readonly k_SGK: Tensor } {
  const [S, H, K] = q_SHK.shape as [number, number, number];
  const G = k_SGK.size(1);
  const { dtype, device } = q_SHK;
  const rotated = { q_SHK: empty([S, H, K], { dtype, device }), k_SGK: empty([S, G, K], { dtype, device }) };
  const total = S * (H + 2 * G) * (K / 16);
  kernelFor(H, G, K)(dtype, { blocks: Math.ceil(total / threads), threads }, [
    ...[q_SHK, k_SGK, v_SGK, cos_SK, sin_SK, slots_S, rotated.q_SHK, rotated.k_SGK, keySlots, valueSlots],
    ...[q_SHK, k_SGK, v_SGK].map((heads) => ({ int: (heads.strides[0] ?? 0) / 8 })),
    { int: total },
  ]);
  return rotated;
}

const kernels = new Map<string, ReturnType<typeof cudaKernel>>();

function kernelFor(numHeads: number, numGroups: number, headSize: number): ReturnType<typeof cudaKernel> {
  const key = `${numHeads} ${numGroups} ${headSize}`;
  let kernel = kernels.get(key);
  if (kernel === undefined) {
    const constants = `
constexpr int HEADS = ${numHeads}, GROUPS = ${numGroups}, HALF = ${headSize / 16}, ALL = HEADS + 2 * GROUPS;`;
    kernel = cudaKernel("store_heads", constants + source);
    kernels.set(key, kernel);
  }
  return kernel;
}

// A thread has a pack of the first half of a head and the pack at the same place of the second.
const source = `
extern "C" __global__ void store_heads(const Pack* q, const Pack* k, const Pack* v, const float4* cosine, const float4* sine,
                                       const int* slots, Pack* outQ, Pack* outK, Pack* keys, Pack* values, int strideQ,
                                       int strideK, int strideV, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int token = i / (ALL * HALF), rest = i % (ALL * HALF), head = rest / HALF, p = rest % HALF;
  if (head >= HEADS + GROUPS) {
    int g = head - HEADS - GROUPS;
    const Pack* from = v + (size_t)token * strideV + g * 2 * HALF + p;
    Pack* to = values + ((size_t)slots[token] * GROUPS + g) * 2 * HALF + p;
    Pack a = from[0], b = from[HALF];
    to[0] = a;
    to[HALF] = b;
    return;
  }
  bool isKey = head >= HEADS;
  int g = head - HEADS;
  const Pack* from = isKey ? k + (size_t)token * strideK + g * 2 * HALF + p : q + (size_t)token * strideQ + head * 2 * HALF + p;
  Pack a = from[0], b = from[HALF], x, y;
  float4 c[2], s[2];
  c[0] = cosine[(token * HALF + p) * 2]; c[1] = cosine[(token * HALF + p) * 2 + 1];
  s[0] = sine[(token * HALF + p) * 2]; s[1] = sine[(token * HALF + p) * 2 + 1];
  float cc[8] = {c[0].x, c[0].y, c[0].z, c[0].w, c[1].x, c[1].y, c[1].z, c[1].w};
  float ss[8] = {s[0].x, s[0].y, s[0].z, s[0].w, s[1].x, s[1].y, s[1].z, s[1].w};
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float u = load(a.x[j]), w = load(b.x[j]);
    x.x[j] = store(u * cc[j] - w * ss[j]);
    y.x[j] = store(w * cc[j] + u * ss[j]);
  }
  Pack* to = isKey ? outK + ((size_t)token * GROUPS + g) * 2 * HALF + p : outQ + ((size_t)token * HEADS + head) * 2 * HALF + p;
  to[0] = x;
  to[HALF] = y;
  if (isKey) {
    Pack* slot = keys + ((size_t)slots[token] * GROUPS + g) * 2 * HALF + p;
    slot[0] = x;
    slot[HALF] = y;
  }
}`;
