/**
 * Draws a token per row of scores, by temperature and by masks of what may be drawn, from what is known of the tiles of the row
 * (score-tiles-kernel.ts): only one tile is read again.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels } from "./cuda-kernel.ts";
import { maskedScoreTiles, type RowMasks, type ScoreTiles, scoreTiles } from "./score-tiles-kernel.ts";

/** What a draw of a step leaves to the next one, and what it knows already. */
interface DrawChoices {
  /** Gets the tokens as int32, 0 in place of -1. */
  readonly drawn_B?: Tensor;
  /** The tiles of these scores at these temperatures, where whoever made the scores left them. */
  readonly tiles?: ScoreTiles | null;
}

/**
 * [3, B] float32: token, its log-probability at its temperature, and at temperature 1. Temperature 0 takes the best, the first where several
 * are equal. `uniforms` in [0, 1) choose the token by inverting the cumulative distribution in the order of the vocabulary. V must be a
 * multiple of 8. A row with NaN or +infinity gives token -1.
 */
export function sampleKernel(
  z_BV: Tensor,
  temperatures_B: Tensor,
  uniforms_B: Tensor,
  { drawn_B = emptyTokens(z_BV), tiles = null }: DrawChoices = {},
): Tensor {
  return draw(
    z_BV,
    tiles ?? scoreTiles(z_BV, temperatures_B),
    { temperatures_B, uniforms_B, tokens_B: drawn_B },
    false,
  );
}

/**
 * What `sampleKernel` does, among the tokens that masks allow: [4, B]. The first three are as there, of the whole row; the fourth is the
 * log-probability among what the mask allows, which is what the token was drawn with. A row whose mask allows nothing gives token -1. One
 * without a mask keeps what `plain_3B` has for it, drawn from the same scores before, with its token in `drawn_B`; where that is not given it
 * gets what `sampleKernel` gives without tiles, to the bit.
 */
export function maskedSampleKernel(
  z_BV: Tensor,
  temperatures_B: Tensor,
  uniforms_B: Tensor,
  masks: RowMasks,
  before?: { readonly plain_3B: Tensor; readonly drawn_B: Tensor },
): Tensor {
  const [B, V] = z_BV.shape as [number, number];
  const { tiles, allowed_BT2 } = maskedScoreTiles(z_BV, temperatures_B, masks, before !== undefined);
  const out_4B = empty([4, B], { device: z_BV.device });
  const drawn_B = before?.drawn_B ?? emptyTokens(z_BV);
  kernelFor(tiles, true)(z_BV.dtype, { blocks: B, threads, overlaps: true }, [
    ...[z_BV, tiles.statistics, temperatures_B, uniforms_B, out_4B, drawn_B],
    ...[{ int: V }, { int: B }, { int: 0 }],
    ...[masks.masks_KW, masks.masks_B, allowed_BT2, before?.plain_3B ?? out_4B],
    { int: before === undefined ? 0 : 1 },
  ]);
  return out_4B;
}

/** The log-probability that sampleKernel without tiles gives to a token of each row, [B], had it drawn that one: equal to the bit. Tokens are int32. */
export function sampledLogprobKernel(z_BV: Tensor, temperatures_B: Tensor, tokens_B: Tensor): Tensor {
  const rows = { temperatures_B, uniforms_B: temperatures_B, tokens_B };
  return draw(z_BV, scoreTiles(z_BV, temperatures_B), rows, true).select(0, 1);
}

/** Whether rows of this many scores can be drawn from. */
export function canSample(vocabSize: number): boolean {
  return vocabSize % 8 === 0;
}

interface DrawnRows {
  readonly temperatures_B: Tensor;
  readonly uniforms_B: Tensor;
  readonly tokens_B: Tensor;
}

function draw(z_BV: Tensor, tiles: ScoreTiles, rows: DrawnRows, areTokensGiven: boolean): Tensor {
  const [B, V] = z_BV.shape as [number, number];
  const out_3B = empty([3, B], { device: z_BV.device });
  kernelFor(tiles, false)(z_BV.dtype, { blocks: B, threads, overlaps: true }, [
    ...[z_BV, tiles.statistics, rows.temperatures_B, rows.uniforms_B, out_3B, rows.tokens_B],
    ...[{ int: V }, { int: B }, { int: areTokensGiven ? 1 : 0 }],
  ]);
  return out_3B;
}

function emptyTokens(z_BV: Tensor): Tensor {
  return empty([z_BV.size(0)], { device: z_BV.device, dtype: "int32" });
}

/** Threads of a row. */
const threads = 256;

// A block draws for a row. Its threads have tiles side by side, and later columns of one tile; every sum has a fixed order.
const source = `
constexpr int WARPS = THREADS / 32, TILES_EACH = (TILES + THREADS - 1) / THREADS, COLUMNS_EACH = (WIDTH + THREADS - 1) / THREADS;
// Of several masses in a row, the one where the goal falls, and what is left of it there.
template <int COUNT> __device__ __forceinline__ void walk(const float (&masses)[COUNT], float rest, int& found, float& left) {
  rest = fmaxf(rest, 0.0f);
#pragma unroll
  for (int k = 0; k < COUNT; k++) {
    if (rest >= 0.0f && masses[k] > 0.0f) { found = k; left = rest; }
    rest -= masses[k];
  }
}
extern "C" __global__ void __launch_bounds__(THREADS) draw(const T* scores, const float4* tiles, const float* temperatures,
    const float* uniforms, float* out, int* drawn, int V, int B, int isGiven
#ifdef MASKED
    , const unsigned* masks, const int* maskOf, const float2* allowedTiles, const float* before, int areOthersKept
#endif
) {
  letNextStart();
  awaitPrevious();
  __shared__ float warpValues[WARPS];
  __shared__ int warpPlaces[WARPS];
  int b = blockIdx.x, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const T* row = scores + (size_t)b * V;
  float* token = out + b;
#ifdef MASKED
  const unsigned* bits = maskOf[b] < 0 ? nullptr : masks + (size_t)maskOf[b] * ((V + 31) / 32);
  if (areOthersKept && bits == nullptr) {
    if (thread < 4) token[thread * B] = before[(thread == 3 ? 1 : thread) * B + b];
    return;
  }
#endif
  float temperature = temperatures[b], uniform = uniforms[b];
  bool isGreedy = temperature == 0.0f;
  float inverse = isGreedy ? 1.0f : 1.0f / temperature;

  // The best of all threads and where it is, the first where several are equal.
  auto findBest = [&](float& best, int& place) {
    for (int step = 16; step > 0; step >>= 1) {
      float other = __shfl_xor_sync(~0u, best, step);
      int otherPlace = __shfl_xor_sync(~0u, place, step);
      if (other > best || (other == best && otherPlace < place)) { best = other; place = otherPlace; }
    }
    __syncthreads();
    if (lane == 0) { warpValues[warp] = best; warpPlaces[warp] = place; }
    __syncthreads();
    best = warpValues[0]; place = warpPlaces[0];
    for (int w = 1; w < WARPS; w++) {
      if (warpValues[w] > best || (warpValues[w] == best && warpPlaces[w] < place)) { best = warpValues[w]; place = warpPlaces[w]; }
    }
  };
  // The masses of the threads before this one, those with its own, and all. The end of one thread is the start of the next, to the bit.
  struct Sums { float from, to, total; };
  auto addUp = [&](float mass) {
    float scan = mass;
    for (int step = 1; step < 32; step <<= 1) {
      float earlier = __shfl_up_sync(~0u, scan, step);
      if (lane >= step) scan += earlier;
    }
    __syncthreads();
    if (lane == 31) warpValues[warp] = scan;
    __syncthreads();
    float offset = 0.0f, total = 0.0f;
    for (int w = 0; w < WARPS; w++) {
      if (w < warp) offset += warpValues[w];
      total += warpValues[w];
    }
    float before = __shfl_up_sync(~0u, scan, 1);
    return Sums{lane == 0 ? offset : offset + before, offset + scan, total};
  };
  // The place that the first thread with the goal between its ends knows, and what is left of the goal there; false where nobody has it.
  auto findOwner = [&](bool isMine, int& place, float& left) {
    unsigned owners = __ballot_sync(~0u, isMine);
    __syncthreads();
    if (lane == 0 && owners == 0) warpPlaces[warp] = -1;
    if (owners != 0 && lane == __ffs(owners) - 1) { warpPlaces[warp] = place; warpValues[warp] = left; }
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
      if (warpPlaces[w] >= 0) { place = warpPlaces[w]; left = warpValues[w]; return true; }
    }
    return false;
  };

  // Of the whole row, and of what may be drawn. Where a product is added, it is said how: a row has the same sums with masks and without.
  float4 own[TILES_EACH];
  float2 mine[TILES_EACH];
  int firstTile = thread * TILES_EACH;
#pragma unroll
  for (int k = 0; k < TILES_EACH; k++) {
    bool isTile = firstTile + k < TILES;
    size_t place = (size_t)b * TILES + firstTile + k;
    own[k] = isTile ? __ldcg(tiles + place) : make_float4(-3.0e38f, 0.0f, 0.0f, 0.0f);
    mine[k] = make_float2(own[k].x, own[k].z);
#ifdef MASKED
    if (isTile) mine[k] = __ldcg(allowedTiles + place);
#endif
  }
  float best = -3.0e38f;
  int bestTile = firstTile;
#pragma unroll
  for (int k = 0; k < TILES_EACH; k++) if (mine[k].x > best) { best = mine[k].x; bestTile = firstTile + k; }
  findBest(best, bestTile);
  float wholeBest = best;
#ifdef MASKED
  int somewhere = 0;
  wholeBest = -3.0e38f;
#pragma unroll
  for (int k = 0; k < TILES_EACH; k++) wholeBest = fmaxf(wholeBest, own[k].x);
  findBest(wholeBest, somewhere);
#endif
  float plain = 0.0f, tempered = 0.0f, mass = 0.0f, shares[TILES_EACH];
#pragma unroll
  for (int k = 0; k < TILES_EACH; k++) {
    plain = fmaf(own[k].y, __expf(own[k].x - wholeBest), plain);
    tempered = fmaf(own[k].z, __expf((own[k].x - wholeBest) * inverse), tempered);
    float share = __expf((mine[k].x - best) * inverse);
    mass = fmaf(mine[k].y, share, mass);
    shares[k] = mine[k].y * share;
  }
  float plainTotal = addUp(plain).total;
  Sums sums = addUp(mass);
  float total = sums.total, wholeTotal = total;
#ifdef MASKED
  wholeTotal = addUp(tempered).total;
#endif
  // A sum with NaN is NaN, and so is one with +infinity, of which exp(z - best) is.
  if (isnan(plainTotal) || (isGiven == 0 && !(total > 0.0f))) {
    if (thread == 0) {
      token[0] = -1.0f;
      token[B] = token[2 * B] = __int_as_float(0x7fc00000);
      if (!isGiven) drawn[b] = 0;
    }
    return;
  }
  if (isGiven) {
    if (thread == 0) token[B] = fmaf(load(row[drawn[b]]) - wholeBest, inverse, -logf(wholeTotal));
    return;
  }
  float goal = uniform * total, left = 0.0f;
  int tile = 0;
  walk(shares, goal - sums.from, tile, left);
  tile += firstTile;
  bool isFound = !isGreedy && findOwner(goal >= sums.from && goal < sums.to, tile, left);
  // A goal that was rounded up to the total is nobody's: the best takes it.
  if (!isFound) tile = bestTile;

  float masses[COLUMNS_EACH], z[COLUMNS_EACH], columnBest = -3.0e38f;
  int firstColumn = tile * WIDTH + thread * COLUMNS_EACH, column = firstColumn;
  mass = 0.0f;
#pragma unroll
  for (int k = 0; k < COLUMNS_EACH; k++) {
    int at = firstColumn + k;
    bool isAllowed = thread * COLUMNS_EACH + k < WIDTH && at < V;
#ifdef MASKED
    if (isAllowed && bits != nullptr) isAllowed = bits[at / 32] >> at % 32 & 1;
#endif
    z[k] = isAllowed ? load(row[at]) : __int_as_float(0xff800000);
    masses[k] = __expf((z[k] - best) * inverse);
    mass += masses[k];
    if (z[k] > columnBest) { columnBest = z[k]; column = at; }
  }
  int chosen = 0;
  if (isFound) {
    sums = addUp(mass);
    float none;
    walk(masses, left - sums.from, chosen, none);
    chosen += firstColumn;
    isFound = findOwner(left >= sums.from && left < sums.to, chosen, none);
  }
  // Where rounding leaves nothing for the goal in its tile, the best of the tile takes it.
  if (!isFound) {
    findBest(columnBest, column);
    chosen = column;
  }
  if (thread != 0) return;
  float score = load(row[chosen]);
  drawn[b] = chosen;
  token[0] = chosen;
  token[B] = isGreedy ? 0.0f : fmaf(score - wholeBest, inverse, -logf(wholeTotal));
  token[2 * B] = score - wholeBest - logf(plainTotal);
#ifdef MASKED
  token[3 * B] = isGreedy ? 0.0f : fmaf(score - best, inverse, -logf(total));
#endif
}`;

const kernelOf = cudaKernels("draw", source);

function kernelFor({ statistics, width }: ScoreTiles, isMasked: boolean): ReturnType<typeof kernelOf> {
  const constants = `constexpr int THREADS = ${threads}, TILES = ${statistics.size(1)}, WIDTH = ${width};\n${isMasked ? "#define MASKED" : ""}`;
  return kernelOf(constants);
}
