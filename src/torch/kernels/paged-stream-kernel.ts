/**
 * Attention of a decode step as paged-kernel.ts computes it, for many rows on Hopper GPUs: the copy engine brings keys and values into shared
 * memory, and a fixed number of blocks take rows in turn.
 *
 * Every warp has a ring of tiles of its own, 16 keys and their values each. What it has read it asks for anew at once, also across the
 * end of a row: while sums of one row are joined, keys and values of the next are on their way. A row is walked by a team of warps, which
 * joins its sums; many short rows have a warp each, since a team would join more often than it reads.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels } from "./cuda-kernel.ts";
import {
  type DecodeHeads,
  type DecodeRows,
  kindArguments,
  maxSplits,
  numProcessors,
  type PagedDecode,
  repeatsOf,
  stridesOf,
  workspace,
} from "./paged-kernel.ts";
import { addWeights, joinSpans, leaveSums, products, turnedQuery } from "./paged-parts.ts";

/** How a step is divided: over the warps of a block, and over the blocks that a processor holds at a time. */
export interface StreamCut {
  readonly warps: number;
  /** Warps that walk a row together: all of a block, or some where no row is cut. */
  readonly team: number;
  /** Tiles of a warp's ring. */
  readonly depth: number;
  readonly resident: number;
  /** Tokens that a block walks at a time: a multiple of 16, and at least a 64th of the longest row. */
  readonly span: number;
}

/** Longer rows are cut: one of them among short ones would keep a block busy long after the others are through. */
const maxSpan = 4096;

/** Fewer rows are faster through paged-kernel.ts, which cuts them so that every processor has a part. */
const minRows = 64;

/** How rows of key heads are divided; null where paged-kernel.ts takes them. */
export function streamCutFor(rows: number, maxTokens: number, headSize: number): StreamCut | null {
  if (rows < minRows || headSize > 128) return null;
  const span = Math.max(Math.min(maxSpan, maxTokens), 16 * Math.ceil(maxTokens / maxSplits / 16));
  if (rows <= numProcessors) return { warps: 8, team: 8, depth: 256 / headSize, resident: 1, span };
  const whole = { warps: 4, team: 4, depth: headSize === 64 ? 6 : 2, resident: 2, span };
  // Where rows are cut, blocks join them.
  if (span < maxTokens) return whole;
  const pairs = { ...whole, team: 2 };
  const more = { ...pairs, depth: 4, resident: 3 };
  return fullest(rows, headSize === 64 ? [more, pairs, whole] : [pairs, whole]);
}

/** The division that leaves fewest warps without a row in its last round; of those alike the first. */
function fullest(rows: number, cuts: readonly StreamCut[]): StreamCut {
  const shareOf = ({ warps, team, resident }: StreamCut) => {
    const atOnce = (numProcessors * resident * warps) / team;
    return rows / (atOnce * Math.ceil(rows / atOnce));
  };
  return cuts.reduce((best, cut) => (shareOf(cut) > shareOf(best) + 0.01 ? cut : best));
}

/** Prepares a step. */
export function pagedStream(
  { positions_B, table_BM, arrivals_N }: DecodeRows,
  { numHeads: H, numGroups, headSize: K }: DecodeHeads,
  { warps, team, depth, resident, span }: StreamCut,
  overlaps: boolean,
): PagedDecode {
  const [B, M] = table_BM.shape as [number, number];
  const { device } = positions_B;
  const repeats = repeatsOf(H / numGroups);
  const G = numGroups * repeats;
  const splits = Math.ceil((M * 16) / span);
  const { partial, stats, arrivals } = workspace(B, H, G, K, splits, device, arrivals_N);
  const numItems = B * G * splits;
  const blocks = Math.min(Math.ceil((numItems * team) / warps), resident * numProcessors);
  const sharedBytes = 1024 + warps * depth * 64 * K;
  return ({ q_BHK, k_BGK, v_BGK }, { keys, values }, { cos_SK, sin_SK }, kind) => {
    const { dtype } = q_BHK;
    const out_BHK = empty([B, H, K], { dtype, device });
    const { constants, window, factors } = kindArguments(kind, K);
    const lines = (x: Tensor) => x.view(-1, numGroups * K);
    kernelFor(`
constexpr int HEAD = ${K}, GROUP = ${H / G}, REPEATS = ${repeats}, WARPS = ${warps}, TEAM = ${team}, DEPTH = ${depth}, RESIDENT = ${resident}, SPLITS = ${maxSplits};
${constants}`)(dtype, { blocks, threads: 32 * warps, sharedBytes, overlaps }, [
      { tilesOf: lines(keys), rows: 16 },
      { tilesOf: lines(values), rows: 16 },
      ...[q_BHK, k_BGK, v_BGK, cos_SK, sin_SK, positions_B, table_BM, keys, values, out_BHK],
      ...[partial, stats, arrivals, kind.sinks_H ?? stats],
      ...stridesOf(q_BHK, k_BGK, v_BGK),
      { int: G },
      { int: M },
      { int: splits },
      { int: span },
      { int: numItems },
      window,
      ...factors,
    ]);
    return out_BHK;
  };
}

// Threads hold the same dimensions of keys and values as in paged-kernel.ts: of every 32 dimensions of keys `row` and row + 8 the eight
// from quarter * 8 on, and of every 64 dimensions of four values the eight from row * 8 on. A tile has lines of 128 bytes, 64 dimensions
// of 16 tokens, in which the copy engine has exchanged pieces of 16 bytes so that few threads meet in a bank.
const source = `
constexpr int KSTEPS = HEAD / 16, TILES = HEAD / 8, TEAMS = WARPS / TEAM, THREADS = TEAM * 32, HELD = TEAMS == 1 ? SPLITS : 1, LINES = 2048, TILE = HEAD * 64;
struct alignas(64) Tiles { char description[128]; };${products}
__device__ __forceinline__ void readPiece(unsigned* to, unsigned from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void await(unsigned barrier, int parity) {
  asm volatile("{\\n.reg .pred p;\\nAGAIN:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra DONE;\\nbra AGAIN;\\nDONE:\\n}"
               :: "r"(barrier), "r"(parity) : "memory");
}
// Keys and values pass through once: the second-level cache gives up their place first.
__device__ __forceinline__ void copyTile(unsigned to, const Tiles* from, int column, int row, unsigned barrier, unsigned long long policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(from), "r"(column), "r"(row), "r"(barrier), "l"(policy) : "memory");
}
// Tokens of a row that one team walks at a time.
struct Span { int b, g, last, start, end, oldest, turns; };

extern "C" __global__ void __launch_bounds__(WARPS * 32, RESIDENT) paged_stream(const __grid_constant__ Tiles keyTiles,
    const __grid_constant__ Tiles valueTiles, const T* newQ, const T* newK, const T* newV, const float* cosine, const float* sine,
    const int* positions, const int* table, T* keys, T* values, T* out, float* partial, float* stats, int* arrivals, const T* sinks,
    int strideQ, int strideK, int strideV, int G, int M, int splits, int span, int numItems, int window, float scale, float bend) {
  extern __shared__ char raw[];
  __shared__ alignas(8) unsigned long long barriers[WARPS * DEPTH];
  __shared__ alignas(16) T lastKeys[TEAMS][HEAD], lastValues[TEAMS][HEAD];
  __shared__ float4 sums[WARPS][8][HEAD / 4 + 1];
  __shared__ float tops[WARPS][8], masses[WARPS][8];
  __shared__ bool isLast;
  __shared__ float spanTops[GROUP][HELD], spanMasses[GROUP][HELD];
  letNextStart();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
  int team = warp / TEAM, member = warp % TEAM, thread = threadIdx.x % THREADS, numTeams = gridDim.x * TEAMS;
  T *lastKey = lastKeys[team], *lastValue = lastValues[team];
  auto meet = [&]() {
    if (TEAMS == 1) __syncthreads();
    else if (TEAM == 1) __syncwarp();
    else asm volatile("bar.sync %0, %1;" :: "r"(team + 1), "n"(THREADS) : "memory");
  };
  unsigned ring = (((unsigned)__cvta_generic_to_shared(raw) + 1023) & ~1023u) + warp * DEPTH * TILE;
  unsigned filled = (unsigned)__cvta_generic_to_shared(barriers + warp * DEPTH);
  if (lane == 0) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&keyTiles) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&valueTiles) : "memory");
    for (int i = 0; i < DEPTH; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(filled + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  // An item is a span of a row of key heads; the first spans of all rows come first.
  int pairs = numItems / splits;
  // The next item that has tokens, from this one on: 32 are looked at together.
  auto seek = [&](int item) {
    if (splits == 1) return item;
    for (; item < numItems; item += 32 * numTeams) {
      int one = item + lane * numTeams;
      unsigned some = __ballot_sync(~0u, one < numItems && one / pairs * span <= positions[one / G % (pairs / G)]);
      if (some != 0) return item + (__ffs(some) - 1) * numTeams;
    }
    return numItems;
  };
  // The first token that is seen. A span that ends before it has no blocks, and its share of the sum is nothing.
  auto open = [&](int item) {
    Span it;
    it.g = item % G; it.b = item / G % (pairs / G);
    it.last = positions[it.b];
    it.start = item / pairs * span;
    it.end = min(it.last + 1, it.start + span);
    it.oldest = HAS_WINDOW ? max(0, it.last + 1 - window) : 0;
    if (HAS_WINDOW) it.start = max(it.start, it.oldest / 16 * 16);
    int count = (it.end - it.start + 15) / 16;
    it.turns = count > member ? (count - member + TEAM - 1) / TEAM : 0;
    return it;
  };
  // What this warp asks for next: turn after turn of a span, whose next 32 blocks its lanes hold, and then the next that has some for it.
  int aheadItem = blockIdx.x * TEAMS + team, aheadTurn = 0, aheadTurns = 0, aheadColumn = 0, mine = 0;
  const int* blocks = table;
  const int* blocksEnd = table;
  auto hold = [&]() {
    const int* at = blocks + (aheadTurn + lane) * TEAM;
    mine = at < blocksEnd ? *at : 0;
  };
  auto openNext = [&]() {
    aheadTurn = 0;
    aheadTurns = 0;
    for (; aheadTurns == 0 && (aheadItem = seek(aheadItem)) < numItems; aheadItem += numTeams) {
      Span it = open(aheadItem);
      blocks = table + (size_t)it.b * M + it.start / 16 + member;
      blocksEnd = table + (size_t)(it.b + 1) * M;
      aheadTurns = it.turns;
      aheadColumn = it.g / REPEATS * HEAD;
    }
    if (aheadTurns > 0) hold();
  };
  auto ask = [&](int slot) {
    if (aheadTurns == 0) return;
    int token = __shfl_sync(~0u, mine, aheadTurn % 32) * 16;
    if (lane == 0) {
      unsigned to = ring + slot * TILE, barrier = filled + 8 * slot;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(TILE) : "memory");
#pragma unroll
      for (int i = 0; i < HEAD / 64; i++) {
        copyTile(to + i * LINES, &keyTiles, aheadColumn + i * 64, token, barrier, policy);
        copyTile(to + TILE / 2 + i * LINES, &valueTiles, aheadColumn + i * 64, token, barrier, policy);
      }
    }
    if (++aheadTurn == aheadTurns) openNext();
    else if (aheadTurn % 32 == 0) hold();
  };
  openNext();
  for (int slot = 0; slot < DEPTH; slot++) ask(slot);
  // What is in the cache has been there since the step before. The heads are new.
  awaitPrevious();

  int H = G * GROUP, slot = 0, parity = 0;
  size_t stride = (size_t)(G / REPEATS) * HEAD;
  for (int item = seek(blockIdx.x * TEAMS + team); item < numItems; item = seek(item + numTeams)) {
    Span it = open(item);
    int split = item / pairs, b = it.b, g = it.g, kv = g / REPEATS, last = it.last, end = it.end;
    // The new key and value: into the cache for later steps, and beside it for this one.
    const float* c = cosine + (size_t)b * (HEAD / 2);
    const float* s = sine + (size_t)b * (HEAD / 2);
    if (last < end) {
      size_t place = ((size_t)table[(size_t)b * M + last / 16] * 16 + last % 16) * stride + kv * HEAD;
      for (int i = thread; i < HEAD; i += THREADS) {
        int d = i % (HEAD / 2), e = d + HEAD / 2;
        if (i < HEAD / 2) {
          const T* from = newK + (size_t)b * strideK + kv * HEAD;
          float x = load(from[d]), y = load(from[e]);
          keys[place + d] = lastKey[d] = store(x * c[d] - y * s[d]);
          keys[place + e] = lastKey[e] = store(y * c[d] + x * s[d]);
        } else {
          const T* from = newV + (size_t)b * strideV + kv * HEAD;
          values[place + d] = lastValue[d] = from[d];
          values[place + e] = lastValue[e] = from[e];
        }
      }
    }
${turnedQuery}
    meet();

    float sum[TILES / 2][4], top = -1.0e30f, mass = 0.0f;
#pragma unroll
    for (int t = 0; t < TILES / 2; t++) { sum[t][0] = 0.0f; sum[t][1] = 0.0f; sum[t][2] = 0.0f; sum[t][3] = 0.0f; }
    auto isSeen = [&](int position) { return position < end && (!HAS_WINDOW || position >= it.oldest); };
#pragma unroll 1
    for (int turn = 0; turn < it.turns; turn++) {
      unsigned key[2][2 * KSTEPS], value[4][TILES / 2], at = ring + slot * TILE;
      await(filled + 8 * slot, parity);
#pragma unroll
      for (int i = 0; i < HEAD / 32; i++) {
#pragma unroll
        for (int u = 0; u < 2; u++)
          readPiece(key[u] + 4 * i, at + i / 2 * LINES + (u * 8 + row) * 128 + ((i % 2 * 4 + quarter) ^ row) * 16);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int token = i / 2 * 8 + quarter * 2 + i % 2;
#pragma unroll
        for (int j = 0; j < HEAD / 64; j++) readPiece(value[i] + 4 * j, at + TILE / 2 + j * LINES + token * 128 + (row ^ (token % 8)) * 16);
      }
      __syncwarp();
      ask(slot);
      if (++slot == DEPTH) { slot = 0; parity ^= 1; }

      int base = it.start + (member + turn * TEAM) * 16;
      if (base + 16 > last) {
#pragma unroll
        for (int u = 0; u < 2; u++) if (base + u * 8 + row == last) read<32>(key[u], lastKey + quarter * 8);
#pragma unroll
        for (int i = 0; i < 4; i++) if (base + (i / 2) * 8 + quarter * 2 + i % 2 == last) read<64>(value[i], lastValue + row * 8);
      }
      float score[2][4];
#pragma unroll
      for (int u = 0; u < 2; u++) {
        score[u][0] = 0.0f; score[u][1] = 0.0f; score[u][2] = 0.0f; score[u][3] = 0.0f;
#pragma unroll
        for (int k = 0; k < KSTEPS; k++) multiply(score[u], query[2 * k], 0u, query[2 * k + 1], 0u, key[u][2 * k], key[u][2 * k + 1]);
      }
      float best = top, weight[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float one = score[i / 2][i % 2] * scale;
        if (HAS_CAP) one = tanhf(one) * bend;
        weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? one : -1.0e30f;
        best = fmaxf(best, weight[i]);
      }
${addWeights("value")}
    }

    mass += __shfl_xor_sync(~0u, mass, 1);
    mass += __shfl_xor_sync(~0u, mass, 2);
#pragma unroll
    for (int half = 0; half < HEAD / 64; half++) {
${leaveSums("half", "half * 16")}
    }
    if (quarter == 0) { tops[warp][row] = top; masses[warp][row] = mass; }
    meet();
    int used = last / span + 1;
    size_t first = (size_t)b * H + g * GROUP;
    // A sink takes its share of attention and gives no value.
    auto sinkOf = [&](int r) { return HAS_SINKS ? load(sinks[g * GROUP + r]) * 1.44269504f : -1.0e30f; };
    for (int i = thread; i < GROUP * HEAD; i += THREADS) {
      int r = i / HEAD, d = i % HEAD, at = (d / 4 ^ d / 8 % 2) * 4 + d % 4;
      float best = used == 1 ? sinkOf(r) : -1.0e30f, total = 0.0f, value = 0.0f;
#pragma unroll
      for (int w = team * TEAM; w < (team + 1) * TEAM; w++) best = fmaxf(best, tops[w][r]);
#pragma unroll
      for (int w = team * TEAM; w < (team + 1) * TEAM; w++) {
        float share = exp2f(tops[w][r] - best);
        total += masses[w][r] * share;
        value += ((const float*)sums[w][r])[at] * share;
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
    if (TEAMS > 1 || used == 1) continue;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      isLast = atomicAdd(arrivals + b * G + g, 1) == used - 1;
      if (isLast) arrivals[b * G + g] = 0;
    }
    __syncthreads();
    if (!isLast) continue;
    __threadfence();
    // Through the second-level cache: what others wrote is not in the first.
${joinSpans("__ldcg")}
  }
}`;

const kernelFor = cudaKernels("paged_stream", source);
