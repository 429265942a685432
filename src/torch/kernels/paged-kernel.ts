/**
 * Attention of a decode step over a cache in blocks, in one pass: rotate queries and keys, put keys and values in their
 * slots, attend.
 *
 * Keys and values are read once for all query heads of their group. Long contexts are cut in spans that run at the same
 * time; whoever is through last joins them.
 */
import { empty, zeros } from "../create.ts";
import type { Device } from "../dtype.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels } from "./cuda-kernel.ts";
import { addWeights, fragments, joinSpans, leaveSums, turnedQuery } from "./paged-parts.ts";

/** Keys and values of one layer, [blocks, blockSize, G, K]. */
interface PagedKeys {
  readonly keys: Tensor;
  readonly values: Tensor;
}

/** Queries, keys and values of the new tokens, before rotation: [B, heads, K], contiguous but for the stride of a token. */
interface NewHeads {
  readonly q_BHK: Tensor;
  readonly k_BGK: Tensor;
  readonly v_BGK: Tensor;
}

/** The inputs of a step that all layers share. */
export interface DecodeRows {
  /** The position of the new token of each row, [B], int32: it sees this many tokens and itself. */
  readonly positions_B: Tensor;
  /** Blocks of each row, [B, M], int32. */
  readonly table_BM: Tensor;
  /** Zeros for each row of key heads, [B H] or more, int32: who joins spans puts them back. Filled for every step where they are not given. */
  readonly arrivals_N?: Tensor;
}

/** The rotation of a layer: its cos and sin at the positions of the rows, [B, K/2], float32. */
interface RowRotation {
  readonly cos_SK: Tensor;
  readonly sin_SK: Tensor;
}

/** What attention does in one layer; null is off, and 1 / sqrt(K) for the scale. */
interface DecodeKind {
  readonly window: number | null;
  readonly scale: number | null;
  readonly softCap: number | null;
  readonly sinks_H: Tensor | null;
}

const headSizes: readonly number[] = [64, 128, 256];

/** Whether the kernel fits this head size and this block size. It is for 16-bit types. */
export function canDecode(headSize: number, blockSize: number): boolean {
  return headSizes.includes(headSize) && blockSize === 16;
}

/** The smallest head size that the kernel fits and these heads fit into; their own where there is none. */
export function paddedHeadSize(headSize: number): number {
  return headSizes.find((size) => size >= headSize) ?? headSize;
}

/** Heads with zeros behind them: they add nothing to scores, and nothing is read of them. */
export function padHeads(x_SHK: Tensor, headSize: number): Tensor {
  return x_SHK.size(2) === headSize ? x_SHK : pad(x_SHK, [0, headSize - x_SHK.size(2)]);
}

const pad = op("aten::constant_pad_nd");

/**
 * Attention of one new token per row, layer after layer: stores its keys and values and returns [B, H, K]. `logMass_HB`, where given,
 * gets the logarithm of the sum of each head's exponentiated scores, float32.
 */
export type PagedDecode<Paged = PagedKeys> = (
  heads: NewHeads,
  paged: Paged,
  rotation: RowRotation,
  kind: DecodeKind,
  logMass_HB?: Tensor,
) => Tensor;

/** The cut that does not depend on how many rows there are: with it, what a token gets is a function of its own sequence, to the bit. */
export function steadyCut(headSize: number): DecodeCut {
  const warps = headSize > 128 ? 4 : 8;
  return { warps, span: 512 * warps };
}

/** Choices of a step: how rows are cut, by the sizes unless it is given, and whether the kernel starts beside the one before it. */
interface DecodeChoices {
  readonly cut?: DecodeCut;
  readonly overlaps?: boolean;
}

/** Prepares a step. */
export function pagedDecode(
  { positions_B, table_BM, arrivals_N }: DecodeRows,
  { numHeads: H, numGroups, headSize: K }: DecodeHeads,
  { cut, overlaps = false }: DecodeChoices = {},
): PagedDecode {
  const [B, M] = table_BM.shape as [number, number];
  const { device } = positions_B;
  const repeats = repeatsOf(H / numGroups);
  const G = numGroups * repeats;
  const { warps, span } = cut ?? cutFor(B * G, M * 16, K);
  const splits = Math.ceil((M * 16) / span);
  const { partial, stats, arrivals } = workspace(B, H, G, K, splits, device, arrivals_N);
  return (heads, { keys, values }, { cos_SK, sin_SK }, kind, logMass_HB) => {
    const { q_BHK, k_BGK, v_BGK } = heads;
    const { dtype } = q_BHK;
    const out_BHK = empty([B, H, K], { dtype, device });
    const { constants, window, factors } = kindArguments(kind, K);
    const launch = { blocks: B * G * splits, threads: 32 * warps, overlaps };
    const sizes = sizesOf({ headSize: K, perGroup: H / G, repeats, warps, isSpread: B * G <= numProcessors });
    kernelFor(sizes + constants)(dtype, launch, [
      ...[q_BHK, k_BGK, v_BGK, cos_SK, sin_SK, positions_B, table_BM, keys, values, out_BHK, partial, stats, arrivals],
      kind.sinks_H ?? stats,
      logMass_HB ?? stats,
      ...stridesOf(q_BHK, k_BGK, v_BGK),
      { int: G },
      { int: M },
      { int: splits },
      { int: span },
      window,
      { int: logMass_HB === undefined ? 0 : B },
      ...factors,
    ]);
    return out_BHK;
  };
}

/** What a kernel is compiled for, and what it is given, of the kind of a layer's attention. Exponents are of 2. */
export function kindArguments({ window, scale, softCap, sinks_H }: DecodeKind, headSize: number) {
  const bend = softCap === null ? Math.LOG2E : softCap * Math.LOG2E;
  const factor = (scale ?? headSize ** -0.5) * (softCap === null ? Math.LOG2E : 1 / softCap);
  return {
    constants: `constexpr bool HAS_WINDOW = ${window !== null}, HAS_CAP = ${softCap !== null}, HAS_SINKS = ${sinks_H !== null};`,
    window: { int: window ?? 0 },
    factors: [{ float: factor }, { float: bend }],
  };
}

/** How far apart the tokens of new heads are. */
export function stridesOf(...heads: readonly Tensor[]): { readonly int: number }[] {
  return heads.map(({ strides }) => ({ int: strides[0] ?? 0 }));
}

/** A block takes up to 8 query heads. Where more share a key head, several blocks do, and each reads it. */
export function repeatsOf(perGroup: number): number {
  let repeats = 1;
  while (perGroup / repeats > 8 || perGroup % repeats !== 0) repeats++;
  return repeats;
}

export interface DecodeHeads {
  readonly numHeads: number;
  readonly numGroups: number;
  readonly headSize: number;
}

/** The way the tokens of a row are divided: blocks of 4, 8 or 16 warps walk `span` tokens each. */
interface DecodeCut {
  readonly warps: number;
  /** A multiple of 16, at most 512 per warp, and at least a 64th of the longest row. */
  readonly span: number;
}

/**
 * As many warps as a large GPU keeps busy (16 on each of 132 processors; half as many where heads are twice as wide and a warp
 * takes twice the registers). Many rows get few warps each, few rows many; only very few rows are cut in spans. A row gets no more than 8:
 * with three buffers each they ask for as much at a time as 16, and leave room for the kernels before and after.
 */
export function cutFor(rows: number, maxTokens: number, headSize: number): DecodeCut {
  const most = 1024 / headSize;
  const isLong = (warps: number) => maxTokens > maxSplits * 512 * warps;
  let warps = 4;
  while (warps < most && ((warps < 8 && rows * warps < 128 * most) || isLong(warps))) warps *= 2;
  const minSpan = rows > 32 ? 1024 : 256;
  const splits = Math.max(1, Math.min(maxSplits, Math.floor(numProcessors / rows), Math.ceil(maxTokens / minSpan)));
  return { warps, span: Math.min(512 * warps, 16 * Math.ceil(maxTokens / splits / 16)) };
}

export const maxSplits = 64;

/** How many processors a large GPU has. */
export const numProcessors = 132;

/** Where spans leave their sums until they are joined. Rows in one span have no use for it. */
export function workspace(
  B: number,
  H: number,
  G: number,
  K: number,
  splits: number,
  device: Device,
  arrivals_N?: Tensor,
) {
  const options = { device, dtype: "int32" } as const;
  const size = splits > 1 ? B * H * splits : 1;
  return {
    partial: empty([size, K], { device }),
    stats: empty([size, 2], { device }),
    arrivals: arrivals_N ?? (splits > 1 ? zeros([B * G], options) : empty([1], options)),
  };
}

interface KernelShape {
  readonly headSize: number;
  readonly perGroup: number;
  readonly repeats: number;
  readonly warps: number;
  /** Whether a block has a processor for itself, and with it registers for a third buffer. */
  readonly isSpread: boolean;
}

/** What the kernel is compiled for, as text. */
function sizesOf({ headSize, perGroup, repeats, warps, isSpread }: KernelShape): string {
  const resident = isSpread ? 1 : Math.max(1, (headSize === 64 ? 16 : 8) / warps);
  const buffers = headSize > 128 ? 1 : isSpread && headSize === 64 && warps === 8 ? 3 : 2;
  return `
constexpr int HEAD = ${headSize}, GROUP = ${perGroup}, REPEATS = ${repeats}, WARPS = ${warps}, SPLITS = ${maxSplits};
constexpr int KSTEPS = HEAD / 16, TILES = HEAD / 8, THREADS = WARPS * 32, RESIDENT = ${resident}, BUFFERS = ${buffers};
`;
}

// A warp takes a block of 16 keys at a time and multiplies with the tensor cores. The order of a dot product's terms and of
// the output's dimensions is free, so both are chosen such that every thread reads 16 bytes in a row, neighbors read
// neighbors, and the fragments need no shuffling: of every 32 dimensions of keys `row` and row + 8, thread (row, quarter)
// holds the eight from quarter * 8 on, and of every 64 dimensions of four values the eight from row * 8 on. Scores come out
// as (query head `row`, keys of `quarter`), which is how the product with the values wants them; sums come out as
// (dimensions of `row`, query heads of `quarter`).
// The next blocks of keys and values are on their way while the present one is used, unless heads are so wide that the registers
// hold one alone.
const keepLogMass = `
    if (d == 0 && numLogMasses > 0) logMass[(size_t)(g * GROUP + r) * numLogMasses + b] = (best + log2f(total)) * 0.6931471806f;`;

const source = `${fragments}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) paged_attend(const T* newQ, const T* newK, const T* newV,
    const float* cosine, const float* sine, const int* positions, const int* table, T* keys, T* values, T* out,
    float* partial, float* stats, int* arrivals, const T* sinks, float* logMass, int strideQ, int strideK, int strideV, int G,
    int M, int splits, int span, int window, int numLogMasses, float scale, float bend) {
  letNextStart();
  int split = blockIdx.x % splits, g = (blockIdx.x / splits) % G, b = blockIdx.x / (splits * G), kv = g / REPEATS;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
  const int* blocks = table + (size_t)b * M;
  // This warp's blocks, one per lane, handed out as they come up; read at the same time as the position.
  int start = split * span, last = positions[b], end = min(last + 1, start + span);
  // The first token that is seen. A span that ends before it has no blocks, and its share of the sum is nothing.
  int oldest = HAS_WINDOW ? max(0, last + 1 - window) : 0;
  if (HAS_WINDOW) start = max(start, oldest / 16 * 16);
  int at = start / 16 + warp + lane * WARPS;
  int mine = at < M ? blocks[at] : 0;
  if (split * span > last) return;
  int H = G * GROUP, count = (end - start + 15) / 16;
  size_t stride = (size_t)(G / REPEATS) * HEAD;
  Tile tiles[BUFFERS];
  auto fetch = [&](Tile& tile, int turn) {
    size_t first = (size_t)__shfl_sync(~0u, mine, turn) * 16 * stride + kv * HEAD;
#pragma unroll
    for (int u = 0; u < 2; u++) stream<32>(tile.k[u], keys + first + (u * 8 + row) * stride + quarter * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) stream<64>(tile.v[i], values + first + ((i / 2) * 8 + quarter * 2 + i % 2) * stride + row * 8);
  };
  int turns = count > warp ? (count - warp + WARPS - 1) / WARPS : 0;
#pragma unroll
  for (int j = 0; j < BUFFERS; j++) if (j < turns) fetch(tiles[j], j);
  // What is in the cache has been there since the step before. The heads are new.
  awaitPrevious();

  // The new key and value: into the cache for later steps, and beside it for this one.
  __shared__ alignas(16) T lastKey[HEAD], lastValue[HEAD];
  const float* c = cosine + (size_t)b * (HEAD / 2);
  const float* s = sine + (size_t)b * (HEAD / 2);
  if (last < end) {
    size_t slot = ((size_t)blocks[last / 16] * 16 + last % 16) * stride + kv * HEAD;
    for (int i = threadIdx.x; i < HEAD; i += THREADS) {
      int d = i % (HEAD / 2), e = d + HEAD / 2;
      if (i < HEAD / 2) {
        const T* from = newK + (size_t)b * strideK + kv * HEAD;
        float x = load(from[d]), y = load(from[e]);
        keys[slot + d] = lastKey[d] = store(x * c[d] - y * s[d]);
        keys[slot + e] = lastKey[e] = store(y * c[d] + x * s[d]);
      } else {
        const T* from = newV + (size_t)b * strideV + kv * HEAD;
        values[slot + d] = lastValue[d] = from[d];
        values[slot + e] = lastValue[e] = from[e];
      }
    }
  }
${turnedQuery}
  __syncthreads();

  float sum[TILES / 2][4], top = -1.0e30f, mass = 0.0f;
#pragma unroll
  for (int t = 0; t < TILES / 2; t++) { sum[t][0] = 0.0f; sum[t][1] = 0.0f; sum[t][2] = 0.0f; sum[t][3] = 0.0f; }
  auto isSeen = [&](int position) { return position < end && (!HAS_WINDOW || position >= oldest); };
  auto use = [&](Tile& tile, int turn) {
    int base = start + (warp + turn * WARPS) * 16;
    if (base + 16 > last) {
#pragma unroll
      for (int u = 0; u < 2; u++) if (base + u * 8 + row == last) read<32>(tile.k[u], lastKey + quarter * 8);
#pragma unroll
      for (int i = 0; i < 4; i++) if (base + (i / 2) * 8 + quarter * 2 + i % 2 == last) read<64>(tile.v[i], lastValue + row * 8);
    }
    float score[2][4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
      score[u][0] = 0.0f; score[u][1] = 0.0f; score[u][2] = 0.0f; score[u][3] = 0.0f;
#pragma unroll
      for (int k = 0; k < KSTEPS; k++) multiply(score[u], query[2 * k], 0u, query[2 * k + 1], 0u, tile.k[u][2 * k], tile.k[u][2 * k + 1]);
    }
    float best = top, weight[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = score[i / 2][i % 2] * scale;
      if (HAS_CAP) value = tanhf(value) * bend;
      weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? value : -1.0e30f;
      best = fmaxf(best, weight[i]);
    }
${addWeights("tile.v")}
  };
#pragma unroll 1
  for (int turn = 0; turn < turns; turn += BUFFERS) {
#pragma unroll
    for (int j = 0; j < BUFFERS; j++) {
      if (turn + j >= turns) break;
      use(tiles[j], turn + j);
      if (turn + j + BUFFERS < turns) fetch(tiles[j], turn + j + BUFFERS);
    }
  }

  mass += __shfl_xor_sync(~0u, mass, 1);
  mass += __shfl_xor_sync(~0u, mass, 2);
  __shared__ float4 sums[WARPS][8][HEAD / 4 + 1];
  __shared__ float tops[WARPS][8], masses[WARPS][8];
#pragma unroll
  for (int half = 0; half < HEAD / 64; half++) {
${leaveSums("half", "half * 16")}
  }
  if (quarter == 0) { tops[warp][row] = top; masses[warp][row] = mass; }
  __syncthreads();
  int used = last / span + 1;
  size_t first = (size_t)b * H + g * GROUP;
  // A sink takes its share of attention and gives no value.
  auto sinkOf = [&](int r) { return HAS_SINKS ? load(sinks[g * GROUP + r]) * 1.44269504f : -1.0e30f; };
  for (int i = threadIdx.x; i < GROUP * HEAD; i += THREADS) {
    int r = i / HEAD, d = i % HEAD, at = (d / 4 ^ d / 8 % 2) * 4 + d % 4;
    float best = used == 1 ? sinkOf(r) : -1.0e30f, total = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) best = fmaxf(best, tops[w][r]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      float share = exp2f(tops[w][r] - best);
      total += masses[w][r] * share;
      value += ((const float*)sums[w][r])[at] * share;
    }
    if (used == 1) {
      if (HAS_SINKS) total += exp2f(sinkOf(r) - best);
      out[(first + r) * HEAD + d] = store(value / total);
      if (d == 0 && numLogMasses > 0) logMass[(size_t)(g * GROUP + r) * numLogMasses + b] = (best + log2f(total)) * 0.6931471806f;
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
${joinSpans("fetchOne", keepLogMass)}
}`;

const kernelFor = cudaKernels("paged_attend", source);
