/**
 * Attention of a decode step as paged-kernel.ts computes it, for few rows on Hopper GPUs: a row of key heads is walked by the blocks of a cluster,
 * which join their sums through each other's shared memory.
 *
 * What such a step waits for is not bytes but the way to memory and back. After the new heads are there, this kernel goes it once, for the heads
 * themselves: keys and values are in registers by then, and nothing is joined through memory. Products leave processors free, or room beside a
 * block of theirs, and so keys and values are fetched while they are at work.
 */
import { empty } from "../create.ts";
import { cudaKernels } from "./cuda-kernel.ts";
import {
  type DecodeHeads,
  type DecodeRows,
  kindArguments,
  type PagedDecode,
  repeatsOf,
  stridesOf,
} from "./paged-kernel.ts";
import { addWeights, fragments, leaveSums, turnedQuery } from "./paged-parts.ts";

/** How a row of key heads is divided: over the blocks of a cluster, and over the warps of each. */
export interface ClusterCut {
  readonly cluster: 2 | 4 | 8;
  readonly warps: 4 | 8;
  /** Tiles of 16 keys and values that a warp has in registers or on their way. */
  readonly depth: number;
}

/** The most blocks that run at the same time in clusters of a size, the largest first: see product-plan.ts. */
const capacities = [
  [8, 112],
  [4, 112],
  [2, 128],
] as const;

/** Tokens of the longest row for each block of its cluster. Longer rows are faster through the other kernels, which keep more of them on their way. */
const maxTokensPerBlock = 768;

/** How rows of key heads are divided; null where there are too many for clusters, or they may be too long. */
export function clusterCutFor(rows: number, maxTokens: number, headSize: number): ClusterCut | null {
  if (headSize > 128) return null;
  const fitting = capacities.find(([cluster, most]) => rows * cluster <= most);
  if (fitting === undefined) return null;
  const [cluster] = fitting;
  if (maxTokens > cluster * maxTokensPerBlock) return null;
  // Pairs of blocks have the most tiles to walk. A third one of a wide head finds no registers.
  return { cluster, warps: 8, depth: cluster === 2 && headSize === 64 ? 3 : 2 };
}

/** Prepares a step. */
export function pagedCluster(
  { positions_B, table_BM }: DecodeRows,
  { numHeads: H, numGroups, headSize: K }: DecodeHeads,
  { cluster, warps, depth }: ClusterCut,
  overlaps: boolean,
): PagedDecode {
  const [B, M] = table_BM.shape as [number, number];
  const { device } = positions_B;
  const repeats = repeatsOf(H / numGroups);
  const G = numGroups * repeats;
  const launch = { blocks: B * G * cluster, threads: 32 * warps, overlaps };
  return ({ q_BHK, k_BGK, v_BGK }, { keys, values }, { cos_SK, sin_SK }, kind) => {
    const { dtype } = q_BHK;
    const out_BHK = empty([B, H, K], { dtype, device });
    const { constants, window, factors } = kindArguments(kind, K);
    kernelFor(`
constexpr int HEAD = ${K}, GROUP = ${H / G}, REPEATS = ${repeats}, CLUSTER = ${cluster}, WARPS = ${warps}, DEPTH = ${depth};
${constants}`)(dtype, launch, [
      ...[q_BHK, k_BGK, v_BGK, cos_SK, sin_SK, positions_B, table_BM, keys, values, out_BHK, kind.sinks_H ?? out_BHK],
      ...stridesOf(q_BHK, k_BGK, v_BGK),
      { int: G },
      { int: M },
      window,
      ...factors,
    ]);
    return out_BHK;
  };
}

// Threads hold the same dimensions of keys and values as in paged-kernel.ts: of every 32 dimensions of keys `row` and row + 8 the eight
// from quarter * 8 on, and of every 64 dimensions of four values the eight from row * 8 on. Tiles go round the blocks of a cluster first and
// round their warps then, so that short rows, too, are read by many processors.
// Where heads of 64 are two tiles deep, a thread asks for no more than 168 registers, as if there were ten warps: so many are left beside a block of
// a product. Deeper and wider ones take what they need.
const source = `
constexpr int KSTEPS = HEAD / 16, TILES = HEAD / 8, THREADS = WARPS * 32, STRIDE = CLUSTER * WARPS;
constexpr int BOUND = DEPTH * HEAD > 128 ? THREADS : THREADS + 64;
// Four numbers of the result are a piece; the blocks of a cluster have OWN each.
constexpr int PIECES = GROUP * HEAD / 4, OWN = (PIECES + CLUSTER - 1) / CLUSTER;
// The address of what this block has here in the shared memory of another block of its cluster.
__device__ __forceinline__ unsigned placeIn(int rank, const void* here) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(here)), "r"(rank));
  return there;
}
${fragments}

extern "C" __global__ void __launch_bounds__(BOUND, 1) __cluster_dims__(CLUSTER, 1, 1) paged_cluster(const T* newQ,
    const T* newK, const T* newV, const float* cosine, const float* sine, const int* positions, const int* table, T* keys, T* values,
    T* out, const T* sinks, int strideQ, int strideK, int strideV, int G, int M, int window, float scale, float bend) {
  __shared__ alignas(16) T lastKey[HEAD], lastValue[HEAD];
  __shared__ float4 sums[WARPS][8][17];
  __shared__ float tops[WARPS][8], masses[WARPS][8];
  // What the blocks of the cluster leave here: their sums of this one's pieces, and the best score and the mass of each head.
  __shared__ float4 parts[CLUSTER][OWN];
  __shared__ float2 marks[CLUSTER][GROUP];
  letNextStart();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  int rank = blockIdx.x % CLUSTER, g = blockIdx.x / CLUSTER % G, b = blockIdx.x / (CLUSTER * G), kv = g / REPEATS;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, quarter = lane % 4;
  const int* blocks = table + (size_t)b * M;
  int last = positions[b], oldest = HAS_WINDOW ? max(0, last + 1 - window) : 0;
  // The first tile with a token that is seen, and this warp's among those from there on.
  int firstTile = oldest / 16, place = rank + warp * CLUSTER;
  // The next 32 blocks of this warp, one per lane, handed out as they come up.
  auto hold = [&](int turn) {
    int at = firstTile + place + (turn + lane) * STRIDE;
    return at < M ? blocks[at] : 0;
  };
  int mine = hold(0), count = last / 16 + 1 - firstTile;
  int turns = count > place ? (count - place + STRIDE - 1) / STRIDE : 0;
  size_t stride = (size_t)(G / REPEATS) * HEAD;
  Tile tiles[DEPTH];
  auto startOf = [&](int turn) {
    if (turn > 0 && turn % 32 == 0) mine = hold(turn);
    return (size_t)__shfl_sync(~0u, mine, turn % 32) * 16 * stride + kv * HEAD;
  };
  auto fetchKeys = [&](Tile& tile, size_t start) {
#pragma unroll
    for (int u = 0; u < 2; u++) stream<32>(tile.k[u], keys + start + (u * 8 + row) * stride + quarter * 8);
  };
  auto fetchValues = [&](Tile& tile, size_t start) {
#pragma unroll
    for (int i = 0; i < 4; i++) stream<64>(tile.v[i], values + start + ((i / 2) * 8 + quarter * 2 + i % 2) * stride + row * 8);
  };
#pragma unroll
  for (int j = 0; j < DEPTH; j++) {
    if (j >= turns) break;
    size_t start = startOf(j);
    fetchKeys(tiles[j], start);
    fetchValues(tiles[j], start);
  }
  // One warp of the cluster has the tile of the new token, and with it the new key and value: two neighbors of each half for every thread.
  int d = lane * 2, e = d + HEAD / 2;
  bool brings = (count - 1) % STRIDE == place && d < HEAD / 2;
  size_t slot = brings ? ((size_t)blocks[last / 16] * 16 + last % 16) * stride + kv * HEAD : 0;
  // The piece of the result that this thread writes, and the sink of its head, which takes its share of attention and gives no value.
  int piece = rank * OWN + threadIdx.x, head = g * GROUP + piece / 16 % GROUP;
  bool isWriter = threadIdx.x < OWN && piece < PIECES;
  float sink = HAS_SINKS && isWriter ? load(sinks[head]) * 1.44269504f : -1.0e30f;
  // What is in the cache has been there since the step before. The heads are new.
  awaitPrevious();

  const float* c = cosine + (size_t)b * (HEAD / 2);
  const float* s = sine + (size_t)b * (HEAD / 2);
  unsigned lowKey, highKey, lowValue, highValue;
  float2 cosines, sines;
  if (brings) {
    const T* newKey = newK + (size_t)b * strideK + kv * HEAD;
    const T* newValue = newV + (size_t)b * strideV + kv * HEAD;
    lowKey = *(const unsigned*)(newKey + d); highKey = *(const unsigned*)(newKey + e);
    lowValue = *(const unsigned*)(newValue + d); highValue = *(const unsigned*)(newValue + e);
    cosines = *(const float2*)(c + d); sines = *(const float2*)(s + d);
  }
${turnedQuery}
  // Into the cache for later steps, and beside it for this one.
  if (brings) {
    float x0 = load((T)lowKey), x1 = load((T)(lowKey >> 16)), y0 = load((T)highKey), y1 = load((T)(highKey >> 16));
    lowKey = pair(x0 * cosines.x - y0 * sines.x, x1 * cosines.y - y1 * sines.y);
    highKey = pair(y0 * cosines.x + x0 * sines.x, y1 * cosines.y + x1 * sines.y);
    *(unsigned*)(lastKey + d) = *(unsigned*)(keys + slot + d) = lowKey;
    *(unsigned*)(lastKey + e) = *(unsigned*)(keys + slot + e) = highKey;
    *(unsigned*)(lastValue + d) = *(unsigned*)(values + slot + d) = lowValue;
    *(unsigned*)(lastValue + e) = *(unsigned*)(values + slot + e) = highValue;
  }
  __syncwarp();

  float sum[TILES / 2][4], top = -1.0e30f, mass = 0.0f;
#pragma unroll
  for (int t = 0; t < TILES / 2; t++) { sum[t][0] = 0.0f; sum[t][1] = 0.0f; sum[t][2] = 0.0f; sum[t][3] = 0.0f; }
  auto isSeen = [&](int position) { return position <= last && (!HAS_WINDOW || position >= oldest); };
  auto use = [&](Tile& tile, int turn) {
    int base = (firstTile + place + turn * STRIDE) * 16;
    if (base + 16 > last) {
#pragma unroll
      for (int u = 0; u < 2; u++) if (base + u * 8 + row == last) read<32>(tile.k[u], lastKey + quarter * 8);
#pragma unroll
      for (int i = 0; i < 4; i++) if (base + (i / 2) * 8 + quarter * 2 + i % 2 == last) read<64>(tile.v[i], lastValue + row * 8);
    }
    // Products with even and with odd steps of the dimensions, for a shorter chain of them.
    float score[2][2][4];
#pragma unroll
    for (int u = 0; u < 2; u++) {
#pragma unroll
      for (int i = 0; i < 4; i++) { score[u][0][i] = 0.0f; score[u][1][i] = 0.0f; }
#pragma unroll
      for (int k = 0; k < KSTEPS; k++)
        multiply(score[u][k % 2], query[2 * k], 0u, query[2 * k + 1], 0u, tile.k[u][2 * k], tile.k[u][2 * k + 1]);
    }
    // What is used up is asked for anew at once, keys before their values.
    bool hasNext = turn + DEPTH < turns;
    size_t next = hasNext ? startOf(turn + DEPTH) : 0;
    if (hasNext) fetchKeys(tile, next);
    float best = top, weight[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = (score[i / 2][0][i % 2] + score[i / 2][1][i % 2]) * scale;
      if (HAS_CAP) value = tanhf(value) * bend;
      weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? value : -1.0e30f;
      best = fmaxf(best, weight[i]);
    }
${addWeights("tile.v")}
    if (hasNext) fetchValues(tile, next);
  };
#pragma unroll 1
  for (int turn = 0; turn < turns; turn += DEPTH) {
#pragma unroll
    for (int j = 0; j < DEPTH; j++) {
      if (turn + j >= turns) break;
      use(tiles[j], turn + j);
    }
  }

  mass += __shfl_xor_sync(~0u, mass, 1);
  mass += __shfl_xor_sync(~0u, mass, 2);
  // The other blocks are there: their shared memory can be written to.
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (quarter == 0) { tops[warp][row] = top; masses[warp][row] = mass; }
  // Sixteen threads join a head of this block, 64 dimensions at a time, and send them to the block that has them.
  int r = threadIdx.x / 16, column = threadIdx.x % 16;
  float best = -1.0e30f, total = 0.0f, share[WARPS];
#pragma unroll
  for (int half = 0; half < HEAD / 64; half++) {
    if (half > 0) __syncthreads();
${leaveSums("half", "0")}
    __syncthreads();
    if (r < GROUP) {
      if (half == 0) {
#pragma unroll
        for (int w = 0; w < WARPS; w++) best = fmaxf(best, tops[w][r]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) { share[w] = exp2f(tops[w][r] - best); total += masses[w][r] * share[w]; }
        if (column < CLUSTER)
          asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" :: "r"(placeIn(column, &marks[rank][r])), "f"(best), "f"(total) : "memory");
      }
      float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        float4 one = sums[w][r][column ^ column / 2 % 2];
        value.x += one.x * share[w]; value.y += one.y * share[w]; value.z += one.z * share[w]; value.w += one.w * share[w];
      }
      int at = (half * GROUP + r) * 16 + column;
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
                   :: "r"(placeIn(at / OWN, &parts[rank][at % OWN])), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
    }
    __syncwarp();
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (!isWriter) return;
  best = sink;
#pragma unroll
  for (int i = 0; i < CLUSTER; i++) best = fmaxf(best, marks[i][piece / 16 % GROUP].x);
  total = HAS_SINKS ? exp2f(sink - best) : 0.0f;
  float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < CLUSTER; i++) {
    float2 mark = marks[i][piece / 16 % GROUP];
    float4 one = parts[i][threadIdx.x];
    float part = exp2f(mark.x - best);
    total += mark.y * part;
    value.x += one.x * part; value.y += one.y * part; value.z += one.z * part; value.w += one.w * part;
  }
  T* to = out + ((size_t)b * G * GROUP + head) * HEAD + piece / (16 * GROUP) * 64 + piece % 16 * 4;
  *(uint2*)to = make_uint2(pair(value.x / total, value.y / total), pair(value.z / total, value.w / total));
}`;

const kernelFor = cudaKernels("paged_cluster", source);
