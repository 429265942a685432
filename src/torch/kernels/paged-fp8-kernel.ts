/**
 * Attention of a decode step over a cache in blocks that holds 8-bit floats: what paged-kernel.ts does, with half of the bytes to read.
 *
 * A key and a value have a scale for every token and head. Codes are numbers of float16, so products are made in float16: keys are scaled
 * after the product, and values by scaling the weight of their token before it.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels } from "./cuda-kernel.ts";
import { fp8Source } from "./fp8-kernel.ts";
import {
  cutFor,
  type DecodeHeads,
  type DecodeRows,
  kindArguments,
  maxSplits,
  type PagedDecode,
  repeatsOf,
  stridesOf,
  workspace,
} from "./paged-kernel.ts";
import { joinSpans } from "./paged-parts.ts";

/** Keys and values of one layer as codes, [blocks, 16, G, K], and their scales, [blocks, G, 16]. */
export interface PagedFp8Keys {
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly keyScales: Tensor;
  readonly valueScales: Tensor;
}

/** Prepares a step, as `pagedDecode` does. */
export function pagedFp8Decode(
  { positions_B, table_BM, arrivals_N }: DecodeRows,
  { numHeads: H, numGroups, headSize: K }: DecodeHeads,
): PagedDecode<PagedFp8Keys> {
  const [B, M] = table_BM.shape as [number, number];
  const { device } = positions_B;
  const repeats = repeatsOf(H / numGroups);
  const G = numGroups * repeats;
  const { warps, span } = cutFor(B * G, M * 16, K);
  const splits = Math.ceil((M * 16) / span);
  const { partial, stats, arrivals } = workspace(B, H, G, K, splits, device, arrivals_N);
  return (heads, { keys, values, keyScales, valueScales }, { cos_SK, sin_SK }, kind) => {
    const { q_BHK, k_BGK, v_BGK } = heads;
    const { dtype } = q_BHK;
    const out_BHK = empty([B, H, K], { dtype, device });
    const { constants, window, factors } = kindArguments(kind, K);
    const sizes = `
constexpr int HEAD = ${K}, GROUP = ${H / G}, REPEATS = ${repeats}, WARPS = ${warps}, SPLITS = ${maxSplits};
${constants}`;
    kernelFor(sizes)(dtype, { blocks: B * G * splits, threads: 32 * warps }, [
      ...[q_BHK, k_BGK, v_BGK, cos_SK, sin_SK, positions_B, table_BM, keys, values, keyScales, valueScales, out_BHK],
      ...[partial, stats, arrivals, kind.sinks_H ?? stats],
      ...stridesOf(q_BHK, k_BGK, v_BGK),
      { int: G },
      { int: M },
      { int: splits },
      { int: span },
      window,
      ...factors,
    ]);
    return out_BHK;
  };
}

// Threads hold the same dimensions of keys and values as in paged-kernel.ts: of every 32 dimensions of keys `row` and row + 8 the eight
// from quarter * 8 on, and of every 64 dimensions of four values the eight from row * 8 on. Eight codes are two words.
const source = `${fp8Source}
constexpr int KSTEPS = HEAD / 16, TILES = HEAD / 8, THREADS = WARPS * 32, RESIDENT = (HEAD == 64 ? 16 : 8) / WARPS;
constexpr int BUFFERS = HEAD > 128 ? 1 : 2;
__device__ __forceinline__ void multiply(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(float low, float high) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// Two codes, in the lower or the upper half of a word, as two numbers of float16.
__device__ __forceinline__ unsigned lower(unsigned codes) {
  unsigned packed;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(packed) : "h"((unsigned short)codes));
  return packed;
}
__device__ __forceinline__ unsigned upper(unsigned codes) { return lower(codes >> 16); }
template <int STEP> __device__ __forceinline__ void read(unsigned* to, const unsigned char* from) {
#pragma unroll
  for (int i = 0; i < HEAD / STEP; i++) *(uint2*)(to + 2 * i) = *(const uint2*)(from + i * STEP);
}
// Keys and values pass through once: they need no place in the first-level cache. What this kernel itself writes is not read from here.
template <int STEP> __device__ __forceinline__ void stream(unsigned* to, const unsigned char* from) {
#pragma unroll
  for (int i = 0; i < HEAD / STEP; i++)
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[2 * i]), "=r"(to[2 * i + 1]) : "l"(from + i * STEP));
}
struct Tile { alignas(8) unsigned k[2][KSTEPS]; alignas(8) unsigned v[4][TILES / 4]; float2 keyScale[2], valueScale[2]; };

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) paged_fp8_attend(const T* newQ, const T* newK, const T* newV,
    const float* cosine, const float* sine, const int* positions, const int* table, unsigned char* keys, unsigned char* values,
    float* keyScales, float* valueScales, T* out, float* partial, float* stats, int* arrivals, const T* sinks, int strideQ,
    int strideK, int strideV, int G, int M, int splits, int span, int window, float scale, float bend) {
  int split = blockIdx.x % splits, g = (blockIdx.x / splits) % G, b = blockIdx.x / (splits * G), kv = g / REPEATS;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
  const int* blocks = table + (size_t)b * M;
  int start = split * span, last = positions[b], end = min(last + 1, start + span);
  int oldest = HAS_WINDOW ? max(0, last + 1 - window) : 0;
  if (HAS_WINDOW) start = max(start, oldest / 16 * 16);
  int at = start / 16 + warp + lane * WARPS;
  int mine = at < M ? blocks[at] : 0;
  if (split * span > last) return;
  int H = G * GROUP, numKeys = G / REPEATS, count = (end - start + 15) / 16;
  size_t stride = (size_t)numKeys * HEAD;
  Tile tiles[BUFFERS];
  auto fetch = [&](Tile& tile, int turn) {
    size_t block = __shfl_sync(~0u, mine, turn), first = block * 16 * stride + kv * HEAD;
#pragma unroll
    for (int u = 0; u < 2; u++) stream<32>(tile.k[u], keys + first + (u * 8 + row) * stride + quarter * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) stream<64>(tile.v[i], values + first + ((i / 2) * 8 + quarter * 2 + i % 2) * stride + row * 8);
#pragma unroll
    for (int u = 0; u < 2; u++) {
      size_t place = (block * numKeys + kv) * 16 + u * 8 + quarter * 2;
      tile.keyScale[u] = *(const float2*)(keyScales + place);
      tile.valueScale[u] = *(const float2*)(valueScales + place);
    }
  };
  int turns = count > warp ? (count - warp + WARPS - 1) / WARPS : 0;
  if (turns > 0) fetch(tiles[0], 0);

  // The new key and value: one warp each makes codes and a scale of it, for later steps in the cache and for this one beside it.
  __shared__ alignas(16) unsigned char lastCodes[2][HEAD];
  __shared__ float lastScales[2];
  const float* c = cosine + (size_t)b * (HEAD / 2);
  const float* s = sine + (size_t)b * (HEAD / 2);
  if (last < end && warp < 2) {
    const T* from = (warp == 0 ? newK + (size_t)b * strideK : newV + (size_t)b * strideV) + kv * HEAD;
    float low[HEAD / 64], high[HEAD / 64], largest = 0.0f;
#pragma unroll
    for (int i = 0; i < HEAD / 64; i++) {
      int d = i * 32 + lane;
      float x = load(from[d]), y = load(from[d + HEAD / 2]);
      low[i] = warp == 0 ? load(store(x * c[d] - y * s[d])) : x;
      high[i] = warp == 0 ? load(store(y * c[d] + x * s[d])) : y;
      largest = fmaxf(largest, fmaxf(fabsf(low[i]), fabsf(high[i])));
    }
    for (int step = 16; step > 0; step >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    float unit = scaleOf(largest);
    size_t block = blocks[last / 16], slot = (block * 16 + last % 16) * stride + kv * HEAD;
    unsigned char* to = (warp == 0 ? keys : values) + slot;
#pragma unroll
    for (int i = 0; i < HEAD / 64; i++) {
      int d = i * 32 + lane;
      unsigned codes = encode2(__fdiv_rn(low[i], unit), __fdiv_rn(high[i], unit));
      to[d] = lastCodes[warp][d] = codes & 255;
      to[d + HEAD / 2] = lastCodes[warp][d + HEAD / 2] = codes >> 8;
    }
    if (lane == 0) (warp == 0 ? keyScales : valueScales)[(block * numKeys + kv) * 16 + last % 16] = lastScales[warp] = unit;
  }
  unsigned query[2 * KSTEPS];
#pragma unroll
  for (int i = 0; i < 2 * KSTEPS; i++) query[i] = 0;
  if (row < GROUP) {
    const T* from = newQ + (size_t)b * strideQ + (g * GROUP + row) * HEAD + quarter * 8;
#pragma unroll
    for (int i = 0; i < HEAD / 32; i++) *(uint4*)(query + 4 * i) = *(const uint4*)(from + i * 32);
    // Dimension d turns with d + HEAD/2. Rounded as the model would before it becomes float16.
#pragma unroll
    for (int i = 0; i < KSTEPS; i++) {
      int angle = i / 4 * 32 + quarter * 8 + i % 4 * 2;
      float2 cc = *(const float2*)(c + angle), ss = *(const float2*)(s + angle);
      float x0 = load((T)query[i]), x1 = load((T)(query[i] >> 16)), y0 = load((T)query[i + KSTEPS]), y1 = load((T)(query[i + KSTEPS] >> 16));
      query[i] = pair(load(store(x0 * cc.x - y0 * ss.x)), load(store(x1 * cc.y - y1 * ss.y)));
      query[i + KSTEPS] = pair(load(store(y0 * cc.x + x0 * ss.x)), load(store(y1 * cc.y + x1 * ss.y)));
    }
  }
  __syncthreads();

  float sum[TILES / 2][4], top = -1.0e30f, mass = 0.0f;
#pragma unroll
  for (int t = 0; t < TILES / 2; t++) { sum[t][0] = 0.0f; sum[t][1] = 0.0f; sum[t][2] = 0.0f; sum[t][3] = 0.0f; }
  auto isSeen = [&](int position) { return position < end && (!HAS_WINDOW || position >= oldest); };
  auto use = [&](Tile& tile, int turn) {
    int base = start + (warp + turn * WARPS) * 16;
    float keyScale[4] = {tile.keyScale[0].x, tile.keyScale[0].y, tile.keyScale[1].x, tile.keyScale[1].y};
    float valueScale[4] = {tile.valueScale[0].x, tile.valueScale[0].y, tile.valueScale[1].x, tile.valueScale[1].y};
    if (base + 16 > last) {
#pragma unroll
      for (int u = 0; u < 2; u++) if (base + u * 8 + row == last) read<32>(tile.k[u], lastCodes[0] + quarter * 8);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (base + (i / 2) * 8 + quarter * 2 + i % 2 != last) continue;
        read<64>(tile.v[i], lastCodes[1] + row * 8);
        keyScale[i] = lastScales[0];
        valueScale[i] = lastScales[1];
      }
    }
    float score[2][4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
      score[u][0] = 0.0f; score[u][1] = 0.0f; score[u][2] = 0.0f; score[u][3] = 0.0f;
#pragma unroll
      for (int k = 0; k < KSTEPS; k++) multiply(score[u], query[2 * k], 0u, query[2 * k + 1], 0u, lower(tile.k[u][k]), upper(tile.k[u][k]));
    }
    float best = top, weight[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = score[i / 2][i % 2] * (scale * keyScale[i]);
      if (HAS_CAP) value = tanhf(value) * bend;
      weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? value : -1.0e30f;
      best = fmaxf(best, weight[i]);
    }
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
    float fade = exp2f(top - best);
    top = best;
    mass *= fade;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? exp2f(weight[i] - best) : 0.0f;
      mass += weight[i];
      // By the largest magnitude of the value rather than its scale, a 448th of it: that keeps weights within float16.
      weight[i] *= valueScale[i] * 448.0f;
    }
    unsigned b0 = pair(weight[0], weight[1]), b1 = pair(weight[2], weight[3]);
    float fadeA = __shfl_sync(~0u, fade, quarter * 8), fadeB = __shfl_sync(~0u, fade, quarter * 8 + 4);
#pragma unroll
    for (int t = 0; t < TILES / 2; t++) {
      sum[t][0] *= fadeA; sum[t][1] *= fadeB; sum[t][2] *= fadeA; sum[t][3] *= fadeB;
      // Dimensions 2t and 2t + 1 of two values each.
      unsigned chosen = t % 2 == 0 ? 0x5140 : 0x7362;
      unsigned first = __byte_perm(tile.v[0][t / 2], tile.v[1][t / 2], chosen), second = __byte_perm(tile.v[2][t / 2], tile.v[3][t / 2], chosen);
      multiply(sum[t], lower(first), upper(first), lower(second), upper(second), b0, b1);
    }
  };
  for (int turn = 0; turn < turns; turn += BUFFERS) {
    if (BUFFERS == 1 && turn > 0) fetch(tiles[0], turn);
    if (BUFFERS == 2 && turn + 1 < turns) fetch(tiles[BUFFERS - 1], turn + 1);
    use(tiles[0], turn);
    if (BUFFERS == 1 || turn + 1 >= turns) continue;
    if (turn + 2 < turns) fetch(tiles[0], turn + 2);
    use(tiles[BUFFERS - 1], turn + 1);
  }

  mass += __shfl_xor_sync(~0u, mass, 1);
  mass += __shfl_xor_sync(~0u, mass, 2);
  __shared__ float sums[WARPS][8][HEAD + 4];
  __shared__ float tops[WARPS][8], masses[WARPS][8];
#pragma unroll
  for (int t = 0; t < TILES / 2; t++) {
#pragma unroll
    for (int i = 0; i < 4; i++) sums[warp][quarter * 2 + i % 2][t / 4 * 64 + row * 8 + t % 4 * 2 + i / 2] = sum[t][i] * (1.0f / 448.0f);
  }
  if (quarter == 0) { tops[warp][row] = top; masses[warp][row] = mass; }
  __syncthreads();
  int used = last / span + 1;
  size_t first = (size_t)b * H + g * GROUP;
  // A sink takes its share of attention and gives no value.
  auto sinkOf = [&](int r) { return HAS_SINKS ? load(sinks[g * GROUP + r]) * 1.44269504f : -1.0e30f; };
  for (int i = threadIdx.x; i < GROUP * HEAD; i += THREADS) {
    int r = i / HEAD, d = i % HEAD;
    float best = used == 1 ? sinkOf(r) : -1.0e30f, total = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) best = fmaxf(best, tops[w][r]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      float share = exp2f(tops[w][r] - best);
      total += masses[w][r] * share;
      value += sums[w][r][d] * share;
    }
    if (used == 1) {
      if (HAS_SINKS) total += exp2f(sinkOf(r) - best);
      out[(first + r) * HEAD + d] = store(value / total);
    } else {
      size_t place = (first + r) * splits + split;
      partial[place * HEAD + d] = value;
      if (d == 0) { stats[place * 2] = best; stats[place * 2 + 1] = total; }
    }
  }
  if (used == 1) return;

  // Through the second-level cache: what others wrote is not in the first.
  auto fetchOne = [](const float* from) {
    float value;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(from));
    return value;
  };
  __shared__ bool isLast;
  __shared__ float spanTops[GROUP][SPLITS], spanMasses[GROUP][SPLITS];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    isLast = atomicAdd(arrivals + b * G + g, 1) == used - 1;
    if (isLast) arrivals[b * G + g] = 0;
  }
  __syncthreads();
  if (!isLast) return;
  __threadfence();
${joinSpans("fetchOne")}
}`;

const kernelFor = cudaKernels("paged_fp8_attend", source);
