/**
 * Queries, keys and values of one projection: queries and keys are turned where they lie, and in the backward pass the three gradients are turned
 * back, joined and added up over tokens, for the bias, in one pass.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { columnSumsKernel } from "./column-sums-kernel.ts";
import { cudaKernel, numProcessors } from "./cuda-kernel.ts";

/** How heads stand in a row of a projection: H of queries, G of keys, G of values, K values each. */
export interface HeadSizes {
  readonly H: number;
  readonly G: number;
  readonly K: number;
}

/** Whether the kernels take such rows: a thread has eight pairs of a head, a block all heads of a token. */
export function canTurnHeads({ H, G, K }: HeadSizes): boolean {
  return K % 16 === 0 && ((H + 2 * G) * K) / 16 <= 512;
}

/** Turns queries and keys of [S, (H + 2 G) K] in place. cos and sin are [S, K/2] in float32. */
export function turnHeadsKernel_(qkv_SN: Tensor, cos_SK: Tensor, sin_SK: Tensor, { H, G, K }: HeadSizes): void {
  const half = K / 16;
  const [S, N] = qkv_SN.shape as [number, number];
  const total = S * (H + G) * half;
  turn(qkv_SN.dtype, { blocks: Math.ceil(total / 256), threads: 256, overlaps: true }, [
    ...[qkv_SN, cos_SK, sin_SK],
    ...[{ int: total }, { int: H + G }, { int: half }, { int: N / 8 }],
  ]);
}

/** Gradients of turned queries, turned keys and values, [S, H or G, K] with any stride between tokens. */
type HeadGradients = readonly [q_SHK: Tensor, k_SGK: Tensor, v_SGK: Tensor];

/** The gradient of [S, (H + 2 G) K], and where `hasSums` its sums over tokens. */
export function joinHeadsKernel(
  gradients: HeadGradients,
  cos_SK: Tensor,
  sin_SK: Tensor,
  { H, G, K }: HeadSizes,
  hasSums: boolean,
): [gradient_SN: Tensor, sums_N: Tensor | null] {
  const [q] = gradients;
  const { dtype, device } = q;
  const S = q.shape[0]!;
  const N = (H + 2 * G) * K;
  const pairs = N / 16;
  const tokensPerBlock = Math.floor(512 / pairs);
  const blocks = Math.min(Math.ceil(S / tokensPerBlock), 2 * numProcessors());
  const gradient_SN = empty([S, N], { dtype, device });
  const parts_PN = hasSums ? empty([blocks, N], { device }) : null;
  const launch = { blocks, threads: pairs * tokensPerBlock, sharedBytes: tokensPerBlock * N * 4, overlaps: true };
  join(dtype, launch, [
    ...[...gradients, cos_SK, sin_SK, gradient_SN, parts_PN ?? gradient_SN],
    ...[...gradients].map(({ strides }) => ({ int: (strides[0] ?? 0) / 8 })),
    ...[{ int: S }, { int: H }, { int: G }, { int: K / 16 }, { int: hasSums ? 1 : 0 }],
  ]);
  return [gradient_SN, parts_PN && columnSumsKernel(parts_PN, dtype)];
}

const pairs = `
// Eight pairs turned by their angles: a and b are the packs at the same place of either half of a head.
__device__ __forceinline__ void turned(Pack& a, Pack& b, const float4* cosine, const float4* sine, float sign) {
  float c[8], s[8];
  *(float4*)c = cosine[0];
  *(float4*)(c + 4) = cosine[1];
  *(float4*)s = sine[0];
  *(float4*)(s + 4) = sine[1];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float u = load(a.x[j]), v = load(b.x[j]), w = sign * s[j];
    a.x[j] = store(u * c[j] - v * w);
    b.x[j] = store(v * c[j] + u * w);
  }
}`;

const turn = cudaKernel(
  "turn_heads",
  `${pairs}
extern "C" __global__ void turn_heads(Pack* x, const float4* cosine, const float4* sine, int total, int heads, int half, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int k = i % half, head = (i / half) % heads, token = i / (half * heads), angle = (token * half + k) * 2;
  Pack* at = x + (size_t)token * stride + head * 2 * half + k;
  awaitPrevious();
  Pack a = at[0], b = at[half];
  turned(a, b, cosine + angle, sine + angle, 1.0f);
  at[0] = a;
  at[half] = b;
}`,
);

const join = cudaKernel(
  "join_heads",
  `${pairs}
extern "C" __global__ void __launch_bounds__(512) join_heads(
    const Pack* q, const Pack* k, const Pack* v, const float4* cosine, const float4* sine, Pack* out, float* parts,
    int qStride, int kStride, int vStride, int S, int H, int G, int half, int hasSums) {
  extern __shared__ float4 sums[];
  int pairs = (H + 2 * G) * half, pair = threadIdx.x % pairs, slot = threadIdx.x / pairs, slots = blockDim.x / pairs;
  int head = pair / half, place = pair % half;
  bool isTurned = head < H + G;
  int stride = head < H ? qStride : isTurned ? kStride : vStride;
  const Pack* from = head < H ? q + head * 2 * half : isTurned ? k + (head - H) * 2 * half : v + (head - H - G) * 2 * half;
  float own[16];
#pragma unroll
  for (int j = 0; j < 16; j++) own[j] = 0.0f;
  letNextStart();
  awaitPrevious();
#pragma unroll 2
  for (int token = blockIdx.x * slots + slot; token < S; token += gridDim.x * slots) {
    const Pack* at = from + (size_t)token * stride + place;
    Pack a = at[0], b = at[half];
    int angle = (token * half + place) * 2;
    if (isTurned) turned(a, b, cosine + angle, sine + angle, -1.0f);
    Pack* to = out + (size_t)token * pairs * 2 + head * 2 * half + place;
    to[0] = a;
    to[half] = b;
#pragma unroll
    for (int j = 0; j < 8; j++) { own[j] += load(a.x[j]); own[8 + j] += load(b.x[j]); }
  }
  if (!hasSums) return;
  float4* mine = sums + slot * pairs * 4 + (head * 2 * half + place) * 2;
  mine[0] = make_float4(own[0], own[1], own[2], own[3]);
  mine[1] = make_float4(own[4], own[5], own[6], own[7]);
  mine[2 * half] = make_float4(own[8], own[9], own[10], own[11]);
  mine[2 * half + 1] = make_float4(own[12], own[13], own[14], own[15]);
  __syncthreads();
  for (int i = threadIdx.x; i < pairs * 4; i += blockDim.x) {
    float4 sum = sums[i];
    for (int other = 1; other < slots; other++) {
      float4 part = sums[other * pairs * 4 + i];
      sum.x += part.x; sum.y += part.y; sum.z += part.z; sum.w += part.w;
    }
    ((float4*)(parts + (size_t)blockIdx.x * pairs * 16))[i] = sum;
  }
}`,
);
