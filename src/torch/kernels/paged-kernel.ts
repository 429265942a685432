/**
 * A decode step over a cache in blocks: rotate queries and keys, put keys and values in their slots, attend.
 *
 * Keys and values are read once for all query heads of their group. A long context is cut in parts that run at the same
 * time (`split`), and joined.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const splitTokens = 256;

/** Keys and values of one layer, [blocks, blockSize, G, K], and where each sequence's blocks are. */
export interface PagedKeys {
  readonly keys: Tensor;
  readonly values: Tensor;
  /** Blocks of each row, [B, M], int32. */
  readonly table_BM: Tensor;
}

/** Whether the kernels fit these head counts, this head size and this block size. They are for 16-bit types. */
export function canDecode(numHeads: number, numGroups: number, headSize: number, blockSize: number): boolean {
  return (headSize === 64 || headSize === 128) && numHeads / numGroups <= 8 && blockSize === 16;
}

/**
 * Rotates q and k by cos and sin [S, K/2] and stores k and v at `slots` (block * blockSize + offset, int32). Returns the
 * rotated queries. q, k and v are [S, heads, K] with contiguous heads and any stride between tokens.
 */
export function rotateAndStoreKernel(
  q_SHK: Tensor,
  k_SGK: Tensor,
  v_SGK: Tensor,
  cos_SK: Tensor,
  sin_SK: Tensor,
  slots_S: Tensor,
  { keys, values }: PagedKeys,
): Tensor {
  const [S, H, K] = q_SHK.shape as [number, number, number];
  const G = k_SGK.size(1);
  const { dtype, device } = q_SHK;
  const out_SHK = empty([S, H, K], { dtype, device });
  const total = S * (H + 2 * G) * (K / 16);
  rotateAndStore(dtype, { blocks: Math.ceil(total / 128), threads: 128 }, [
    q_SHK,
    k_SGK,
    v_SGK,
    cos_SK,
    sin_SK,
    slots_S,
    out_SHK,
    keys,
    values,
    { int: total },
    { int: H },
    { int: G },
    { int: K / 16 },
    { int: (q_SHK.strides[0] ?? 0) / 8 },
    { int: (k_SGK.strides[0] ?? 0) / 8 },
    { int: (v_SGK.strides[0] ?? 0) / 8 },
  ]);
  return out_SHK;
}

/** Attention of one query per row over the first `lengths` tokens of the row: [B, H, K]. */
export function pagedDecodeKernel(
  q_BHK: Tensor,
  { keys, values, table_BM }: PagedKeys,
  lengths_B: Tensor,
  scale: number,
): Tensor {
  const [B, H, K] = q_BHK.shape as [number, number, number];
  const [, blockSize, G] = keys.shape as [number, number, number];
  const M = table_BM.size(1);
  const { dtype, device } = q_BHK;
  const splits = Math.ceil((M * blockSize) / splitTokens);
  const out_BHK = empty([B, H, K], { dtype, device });
  const partial = empty([B, H, splits, K], { device });
  const stats = empty([B, H, splits, 2], { device });
  const source = decodeFor(K, H / G);
  const shared = [{ int: G }, { int: M }, { int: splits }] as const;
  source.attend(dtype, { blocks: B * G * splits, threads: 128 }, [
    q_BHK,
    keys,
    values,
    table_BM,
    lengths_B,
    partial,
    stats,
    ...shared,
    { float: scale * Math.LOG2E },
  ]);
  source.join(dtype, { blocks: B * H, threads: K }, [partial, stats, lengths_B, out_BHK, { int: H }, { int: splits }]);
  return out_BHK;
}

const rotateAndStore = cudaKernel(
  "rotate_and_store",
  `
extern "C" __global__ void rotate_and_store(const Pack* q, const Pack* k, const Pack* v, const float4* cosine,
    const float4* sine, const int* slots, Pack* out, Pack* keys, Pack* values, int total, int H, int G, int half,
    int strideQ, int strideK, int strideV) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int p = i % half, head = (i / half) % (H + 2 * G), token = i / (half * (H + 2 * G));
  const Pack* from;
  Pack* to;
  if (head < H) {
    from = q + (size_t)token * strideQ + head * 2 * half + p;
    to = out + ((size_t)token * H + head) * 2 * half + p;
  } else if (head < H + G) {
    from = k + (size_t)token * strideK + (head - H) * 2 * half + p;
    to = keys + ((size_t)slots[token] * G + head - H) * 2 * half + p;
  } else {
    from = v + (size_t)token * strideV + (head - H - G) * 2 * half + p;
    to = values + ((size_t)slots[token] * G + head - H - G) * 2 * half + p;
    to[0] = from[0];
    to[half] = from[half];
    return;
  }
  float c[8], s[8];
  int at = (token * half + p) * 2;
  *(float4*)c = cosine[at]; *(float4*)(c + 4) = cosine[at + 1];
  *(float4*)s = sine[at]; *(float4*)(s + 4) = sine[at + 1];
  Pack a = from[0], b = from[half], x, y;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float u = load(a.x[j]), w = load(b.x[j]);
    x.x[j] = store(u * c[j] - w * s[j]);
    y.x[j] = store(w * c[j] + u * s[j]);
  }
  to[0] = x;
  to[half] = y;
}`,
);

interface DecodeKernels {
  readonly attend: ReturnType<typeof cudaKernel>;
  readonly join: ReturnType<typeof cudaKernel>;
}

const decodeKernels = new Map<string, DecodeKernels>();

function decodeFor(headSize: number, perGroup: number): DecodeKernels {
  const key = `${headSize} ${perGroup}`;
  let kernels = decodeKernels.get(key);
  if (kernels === undefined) {
    const constants = `
constexpr int HEAD = ${headSize}, GROUP = ${perGroup}, SPLIT = ${splitTokens};
constexpr int KSTEPS = HEAD / 16, TILES = HEAD / 8, WARPS = 4;`;
    kernels = {
      attend: cudaKernel("paged_attend", constants + attendSource),
      join: cudaKernel("paged_join", constants + joinSource),
    };
    decodeKernels.set(key, kernels);
  }
  return kernels;
}

// A warp takes a block of 16 keys at a time and multiplies with the tensor cores: the query heads of the group are the rows
// of a 16 x 16 tile (half of them empty), keys its columns. The order of a dot product's terms and of the output's columns
// is free, so both are chosen such that every thread reads 16 bytes in a row and the fragments need no shuffling:
// thread (row, quarter) holds dimensions quarter * HEAD/4 ... of key `row`, and dimensions row * TILES ... of four values.
const attendSource = `
__device__ __forceinline__ void multiply(float* c, unsigned a0, unsigned a2, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(0u), "r"(a2), "r"(0u), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(float low, float high) {
  unsigned packed;
  asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
template <int WORDS> __device__ __forceinline__ void read(unsigned* to, const T* from) {
#pragma unroll
  for (int i = 0; i < WORDS / 4; i++) *(uint4*)(to + 4 * i) = ((const uint4*)from)[i];
}
extern "C" __global__ void __launch_bounds__(128) paged_attend(const T* q, const T* keys, const T* values,
    const int* table, const int* lengths, float* partial, float* stats, int G, int M, int splits, float scale) {
  int split = blockIdx.x % splits, g = (blockIdx.x / splits) % G, b = blockIdx.x / (splits * G);
  int start = split * SPLIT, length = lengths[b];
  if (start >= length) return;
  int end = min(length, start + SPLIT), H = G * GROUP;
  int warp = threadIdx.x / 32, row = (threadIdx.x % 32) / 4, quarter = threadIdx.x % 4;
  unsigned query[2 * KSTEPS];
#pragma unroll
  for (int i = 0; i < 2 * KSTEPS; i++) query[i] = 0;
  if (row < GROUP) read<2 * KSTEPS>(query, q + ((size_t)b * H + g * GROUP + row) * HEAD + quarter * (HEAD / 4));
  float sum[TILES][4], top = -1.0e30f, mass = 0.0f;
#pragma unroll
  for (int t = 0; t < TILES; t++) { sum[t][0] = 0.0f; sum[t][1] = 0.0f; sum[t][2] = 0.0f; sum[t][3] = 0.0f; }
  const int* blocks = table + (size_t)b * M;
  size_t stride = (size_t)G * HEAD;
  for (int base = start + warp * 16; base < end; base += WARPS * 16) {
    size_t first = (size_t)blocks[base / 16] * 16 * stride + g * HEAD;
    unsigned k[2][2 * KSTEPS], v[4][TILES / 2];
#pragma unroll
    for (int u = 0; u < 2; u++) read<2 * KSTEPS>(k[u], keys + first + (u * 8 + row) * stride + quarter * (HEAD / 4));
#pragma unroll
    for (int i = 0; i < 4; i++) read<TILES / 2>(v[i], values + first + ((i / 2) * 8 + quarter * 2 + i % 2) * stride + row * TILES);
    float score[2][4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
      score[u][0] = 0.0f; score[u][1] = 0.0f; score[u][2] = 0.0f; score[u][3] = 0.0f;
#pragma unroll
      for (int s = 0; s < KSTEPS; s++) multiply(score[u], query[2 * s], query[2 * s + 1], k[u][2 * s], k[u][2 * s + 1]);
    }
    float best = top;
#pragma unroll
    for (int u = 0; u < 2; u++) {
#pragma unroll
      for (int j = 0; j < 2; j++) {
        score[u][j] = base + u * 8 + quarter * 2 + j < end ? score[u][j] * scale : -1.0e30f;
        best = fmaxf(best, score[u][j]);
      }
    }
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
    float fade = exp2f(top - best), weight[4];
    top = best;
    mass *= fade;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      bool isSeen = base + (i / 2) * 8 + quarter * 2 + i % 2 < end;
      weight[i] = isSeen ? exp2f(score[i / 2][i % 2] - best) : 0.0f;
      mass += weight[i];
    }
    unsigned a0 = pair(weight[0], weight[1]), a2 = pair(weight[2], weight[3]);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      unsigned pick = t % 2 == 0 ? 0x5410 : 0x7632;
      unsigned b0 = __byte_perm(v[0][t / 2], v[1][t / 2], pick), b1 = __byte_perm(v[2][t / 2], v[3][t / 2], pick);
      sum[t][0] *= fade; sum[t][1] *= fade;
      multiply(sum[t], a0, a2, b0, b1);
    }
  }
  mass += __shfl_xor_sync(~0u, mass, 1);
  mass += __shfl_xor_sync(~0u, mass, 2);
  __shared__ float sums[WARPS][GROUP][HEAD];
  __shared__ float tops[WARPS][GROUP], masses[WARPS][GROUP];
  if (row < GROUP) {
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      sums[warp][row][(quarter * 2) * TILES + t] = sum[t][0];
      sums[warp][row][(quarter * 2 + 1) * TILES + t] = sum[t][1];
    }
    if (quarter == 0) { tops[warp][row] = top; masses[warp][row] = mass; }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < GROUP * HEAD; i += 128) {
    int r = i / HEAD, d = i % HEAD;
    float best = -1.0e30f, total = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) best = fmaxf(best, tops[w][r]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      float share = exp2f(tops[w][r] - best);
      total += masses[w][r] * share;
      value += sums[w][r][d] * share;
    }
    size_t at = ((size_t)b * H + g * GROUP + r) * splits + split;
    partial[at * HEAD + d] = value;
    if (d == 0) { stats[at * 2] = best; stats[at * 2 + 1] = total; }
  }
}`;

const joinSource = `
extern "C" __global__ void paged_join(const float* partial, const float* stats, const int* lengths, T* out, int H, int splits) {
  int head = blockIdx.x, d = threadIdx.x;
  int used = (lengths[head / H] + SPLIT - 1) / SPLIT;
  const float* mine = stats + (size_t)head * splits * 2;
  float best = -1.0e30f, total = 0.0f, value = 0.0f;
  for (int s = 0; s < used; s++) best = fmaxf(best, mine[s * 2]);
  for (int s = 0; s < used; s++) {
    float weight = exp2f(mine[s * 2] - best);
    total += mine[s * 2 + 1] * weight;
    value += partial[((size_t)head * splits + s) * HEAD + d] * weight;
  }
  out[(size_t)head * HEAD + d] = store(value / total);
}`;
