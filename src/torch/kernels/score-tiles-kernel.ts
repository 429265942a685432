/**
 * What a draw needs to know of each tile of a row of scores: the best one, and the sums of exponentiated scores relative to it. With that a
 * token is found in two short steps (the tile, then the token in it) and the row is read once, by as many processors as there are. The last
 * product of a chain leaves it too (product-source.ts), and then the row is not read at all.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

/** Tiles of rows of scores, in the order of the vocabulary. */
export interface ScoreTiles {
  /**
   * [B, tiles, 4], float32: the best score, the sum of exp(z - best), that of exp((z - best) / temperature), and nothing. Sums of a tile with
   * NaN or with +infinity are NaN.
   */
  readonly statistics: Tensor;
  /** Scores in a tile; the last one may have fewer. */
  readonly width: number;
}

/** What rows may draw. */
export interface RowMasks {
  /** One bit per token, set where it may be drawn, in words of int32: [K, W]. */
  readonly masks_KW: Tensor;
  /** The mask of each row, int32; -1 where all tokens may be drawn. */
  readonly masks_B: Tensor;
}

/** The scores of a step, [B, V], and their tiles where the kernel that made them left those. */
export interface StepScores {
  readonly scores_BV: Tensor;
  readonly tiles: ScoreTiles | null;
}

/** The tiles of scores that are in memory. V must be a multiple of 4. The sums of a row depend on its scores alone. */
export function scoreTiles(z_BV: Tensor, temperatures_B: Tensor): ScoreTiles {
  const { tiles, shape, args } = prepare(z_BV, temperatures_B);
  plain(z_BV.dtype, shape, args);
  return tiles;
}

/**
 * The same, and the best score and the tempered sum of what masks allow: [B, tiles, 2]. With `areOthersKept` nothing is left for rows without
 * a mask.
 */
export function maskedScoreTiles(
  z_BV: Tensor,
  temperatures_B: Tensor,
  { masks_KW, masks_B }: RowMasks,
  areOthersKept: boolean,
): { readonly tiles: ScoreTiles; readonly allowed_BT2: Tensor } {
  const { tiles, shape, args } = prepare(z_BV, temperatures_B);
  const [B, T] = tiles.statistics.shape as [number, number];
  const allowed_BT2 = empty([B, T, 2], { device: z_BV.device });
  masked(z_BV.dtype, shape, [...args, masks_KW, masks_B, allowed_BT2, { int: areOthersKept ? 1 : 0 }]);
  return { tiles, allowed_BT2 };
}

/** Each lane of a warp has this many groups of four scores on their way at a time. */
const groupsPerLane = 8;
const width = 128 * groupsPerLane;
const warpsPerBlock = 8;

function prepare(z_BV: Tensor, temperatures_B: Tensor) {
  const [B, V] = z_BV.shape as [number, number];
  const T = Math.ceil(V / width);
  const statistics = empty([B, T, 4], { device: z_BV.device });
  const shape = { blocks: B * Math.ceil(T / warpsPerBlock), threads: 32 * warpsPerBlock };
  const args = [z_BV, temperatures_B, statistics, { int: V }, { int: B }, { int: T }];
  return { tiles: { statistics, width }, shape, args };
}

// A warp has a tile. The last columns come first: whoever wrote the scores wrote those last, so the second-level cache still has them.
const source = `
constexpr int GROUPS = ${groupsPerLane}, WIDTH = ${width}, WARPS = ${warpsPerBlock};
struct alignas(4 * sizeof(T)) Four { T x[4]; };
extern "C" __global__ void __launch_bounds__(32 * WARPS) score_tiles(const T* scores, const float* temperatures, float4* tiles, int V, int B, int numTiles
#ifdef MASKED
  , const unsigned* masks, const int* maskOf, float2* allowedTiles, int areOthersKept
#endif
) {
  letNextStart();
  awaitPrevious();
  int lane = threadIdx.x % 32, b = blockIdx.x % B, tile = numTiles - 1 - (blockIdx.x / B * WARPS + threadIdx.x / 32);
  if (tile < 0) return;
#ifdef MASKED
  if (areOthersKept && maskOf[b] < 0) return;
#endif
  const T* row = scores + (size_t)b * V;
  const float nothing = __int_as_float(0xff800000);
  Four read[GROUPS];
#pragma unroll
  for (int j = 0; j < GROUPS; j++) {
    int column = tile * WIDTH + (j * 32 + lane) * 4;
    if (column < V) read[j] = *(const Four*)(row + column);
  }
  float temperature = temperatures[b], inverse = temperature == 0.0f ? 1.0f : 1.0f / temperature;
  float z[GROUPS][4], best = -3.0e38f;
#pragma unroll
  for (int j = 0; j < GROUPS; j++) {
    bool isScore = tile * WIDTH + (j * 32 + lane) * 4 < V;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      z[j][k] = isScore ? load(read[j].x[k]) : nothing;
      best = fmaxf(best, z[j][k]);
    }
  }
  auto bestOfWarp = [](float value) {
    for (int step = 16; step > 0; step >>= 1) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
  };
  auto sumOfWarp = [](float value) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
    return value;
  };
  auto massOf = [&](float inverse) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
#pragma unroll
      for (int k = 0; k < 4; k++) sum += __expf((z[j][k] - best) * inverse);
    }
    return sumOfWarp(sum);
  };
  best = bestOfWarp(best);
  float plain = massOf(1.0f), tempered = inverse == 1.0f ? plain : massOf(inverse);
  size_t place = (size_t)b * numTiles + tile;
  if (lane == 0) tiles[place] = make_float4(best, plain, tempered, 0.0f);
#ifdef MASKED
  if (maskOf[b] >= 0) {
    const unsigned* bits = masks + (size_t)maskOf[b] * ((V + 31) / 32);
    best = -3.0e38f;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
      int column = tile * WIDTH + (j * 32 + lane) * 4;
      unsigned four = column < V ? bits[column / 32] >> column % 32 : 0u;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if ((four >> k & 1) == 0) z[j][k] = nothing;
        best = fmaxf(best, z[j][k]);
      }
    }
    best = bestOfWarp(best);
    tempered = massOf(inverse);
  }
  if (lane == 0) allowedTiles[place] = make_float2(best, tempered);
#endif
}`;

const plain = cudaKernel("score_tiles", source);
const masked = cudaKernel("score_tiles", `#define MASKED\n${source}`);
