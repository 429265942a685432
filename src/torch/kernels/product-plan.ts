/**
 * How a product of few rows with a large matrix is divided over the processors of a Hopper GPU: see product-kernel.ts.
 *
 * A block multiplies up to 64, 128 or 256 rows with some columns of the output (a tile) and a part of the inner dimension (a split), in steps
 * of 64 that stand in shared memory in stages. The blocks that share a tile are a cluster and add up their parts. The choice depends on
 * the shape alone and so does the order of every sum: a step gives the same numbers whenever it is run.
 */

/**
 * What comes after the product: `scaled` multiplies each row by its norm's factor and adds a bias, `gated` takes silu(gate) * up of two
 * halves, `residual` adds to the residual stream and prepares the next norm, `scores` is scaled and stays in float32.
 */
export type ProductKind = "scaled" | "gated" | "residual" | "scores";

/** The sizes of x [rows, inputs] times w' with w [outputs, inputs]. */
export interface ProductSizes {
  readonly inputs: number;
  readonly outputs: number;
  readonly rows: number;
}

/** A way to divide a product. */
export interface ProductPlan extends Division {
  /** Tiles that are computed at a time. Where there are more, a block takes several in turn. */
  readonly tilesAtOnce: number;
  readonly stages: number;
  /** Rows of x that a stage has room for. */
  readonly stageRows: number;
  /** Shared memory for the parts of a cluster, and in all. */
  readonly sumBytes: number;
  readonly sharedBytes: number;
}

interface Division {
  /** Rows of the matrix that a block takes: columns of the output, or of gate and up in equal parts. */
  readonly tile: number;
  readonly splits: number;
  /** Groups of four warps, each with 64 rows. */
  readonly groups: 1 | 2 | 4;
  /** Columns of the output in a tile, and the tiles that cover it. */
  readonly columns: number;
  readonly numTiles: number;
  readonly numRowTiles: number;
}

/** The inner dimension goes by 64 values, which is a line of 128 bytes. */
export const stepWidth = 64;

const lineBytes = 2 * stepWidth;

/** How many blocks run at the same time where they come in clusters of this size: processors stand in groups that no cluster leaves. */
const capacities: Readonly<Record<number, number>> = { 1: 132, 2: 128, 4: 112, 8: 112 };

/** Pairs of up to 64 rows leave sixteen processors free, where the next kernel starts meanwhile. */
const fewRowsCapacities: typeof capacities = { ...capacities, 2: 116 };

/** The work that a cluster's exchange takes the time of, for each of its blocks. Sums of a residual pass through shared memory in any case. */
const splitCosts = { scaled: 38, gated: 38, scores: 38, residual: 30 } as const;

/** The work that another block takes the time of, with up to 64 rows: a processor that has none copies for the next kernel already. */
const blockCost = 3.6;

const kilobyte = 1024;

/**
 * Shared memory that leaves room for the kernel before or after; blocks of a cluster are small before and after. Where a processor has several
 * blocks of gate and up, two have to fit.
 */
const sharedLimits = {
  whole: { once: 168 * kilobyte, several: 112 * kilobyte },
  split: { 1: 140 * kilobyte, 2: 160 * kilobyte },
} as const;

/** Shared memory of blocks with 256 rows, and of those with many steps: they have a processor for themselves. */
const wideLimit = 216 * kilobyte;
const longBytes = 200 * kilobyte;

/**
 * From this many steps on, weights on their way are worth more than room for other kernels: of gate and up, and of blocks in clusters, which
 * have 56 columns then or fewer steps of more.
 */
const longSteps = 28;
const longColumns = 56;

/** The most stages that a kernel has barriers for. */
export const maxStages = 16;

/** What a block's shared memory is aligned to. */
const alignment = 1024;

/** Plans a product. All counts of rows up to 64 are divided alike, all up to 128, and all above. */
export function planProduct(kind: ProductKind, sizes: ProductSizes): ProductPlan {
  const { inputs, outputs, rows } = sizes;
  const groups = rows <= 64 ? 1 : rows > 128 && kind === "gated" ? 4 : 2;
  const isFew = groups === 1;
  const isWhole = kind === "gated" || kind === "scores";
  // The sums of a tile stand in registers, of which 16 warps have fewer each.
  const maxTile = isWhole ? (groups === 4 ? 112 : 144) : isFew ? 128 : 80;
  const numSteps = inputs / stepWidth;
  // Eight lanes add four columns each to the residual stream.
  const tileStep = kind === "gated" ? 16 : isFew && kind === "residual" ? 32 : 8;
  let best: { readonly division: Division; readonly stages: number } | undefined;
  let bestCost = Number.POSITIVE_INFINITY;
  for (const splits of isWhole ? [1] : [1, 2, 4, 8]) {
    const steps = Math.ceil(numSteps / splits);
    if (splits > 1 && steps < 4) continue;
    for (let tile = Math.max(16, tileStep); tile <= maxTile; tile += tileStep) {
      const division = { ...divided(kind, outputs, tile, groups, rows), splits, groups } as const;
      const stages = numStages(kind, division, steps);
      if (stages < Math.min(3, steps)) continue;
      const numRowTiles = groups === 4 ? 1 : groups;
      const blocks = division.numTiles * numRowTiles * splits;
      const waves = Math.ceil(blocks / (isFew ? fewRowsCapacities : capacities)[splits]!);
      // Rows of x come from the second-level cache, those of the matrix from memory.
      const cost = waves * steps * (tile + 32 * groups) + splitCosts[kind] * splits + (isFew ? blockCost * blocks : 0);
      if (cost < bestCost) [best, bestCost] = [{ division, stages }, cost];
    }
  }
  return staged(kind, sizes, best!.division, best!.stages);
}

function divided(kind: ProductKind, outputs: number, tile: number, groups: number, rows: number) {
  const [columns, width] = kind === "gated" ? [tile / 2, outputs / 2] : [tile, outputs];
  return { tile, columns, numTiles: Math.ceil(width / columns), numRowTiles: Math.ceil(rows / (64 * groups)) };
}

function sumBytesOf(kind: ProductKind, { tile, groups, splits }: Division): number {
  const hasSums = splits > 1 || kind === "residual";
  return hasSums ? alignment * Math.ceil((64 * groups * (tile + 4) * 4) / alignment) : 0;
}

/** As many stages as there is room for beside other kernels. */
function numStages(kind: ProductKind, division: Division, steps: number): number {
  const { tile, groups, splits, numTiles, numRowTiles } = division;
  const { whole, split } = sharedLimits;
  const isOnce = kind === "gated" && groups === 1 && numTiles * numRowTiles <= capacities[1]!;
  const limit = groups === 4 ? wideLimit : splits > 1 ? split[groups] : isOnce ? whole.once : whole.several;
  const room = limit - alignment - sumBytesOf(kind, division);
  return Math.min(steps, Math.floor(room / ((64 * groups + tile) * lineBytes)), 9);
}

/** Fits the stages to the rows there are. */
function staged(kind: ProductKind, { inputs, rows }: ProductSizes, division: Division, stages: number): ProductPlan {
  const { tile, splits, groups, numTiles, numRowTiles } = division;
  const steps = Math.ceil(inputs / stepWidth / splits);
  const xRows = rowsOfTile(groups, rows);
  const isLong = groups === 1 && (kind === "residual" ? steps * tile >= longSteps * longColumns : steps >= longSteps);
  const isInTurn = kind === "scores" || (kind === "gated" && isLong && xRows === 8);
  const isAlone = isInTurn || (isLong && kind !== "gated");
  const tilesAtOnce = isInTurn ? Math.min(numTiles, Math.floor(capacities[1]! / numRowTiles)) : numTiles;
  const stageRows = isLong ? xRows : 64 * groups;
  const sumBytes = sumBytesOf(kind, division);
  const otherBytes = alignment + sumBytes;
  const sharedBytes = isAlone ? longBytes : otherBytes + stages * (64 * groups + tile) * lineBytes;
  // The tensor cores read 64 rows of x for each group, whatever stands behind those there are.
  const slack = Math.max(0, 64 * groups - stageRows - tile) * lineBytes;
  const fitting = Math.floor((sharedBytes - otherBytes - slack) / ((stageRows + tile) * lineBytes));
  const numSteps = steps * Math.ceil(numTiles / tilesAtOnce);
  return {
    ...division,
    ...{ tilesAtOnce, stageRows, sumBytes, sharedBytes, stages: Math.min(maxStages, numSteps, fitting) },
  };
}

/** Rows of x that a block is brought: eight at a time. */
export function rowsOfTile(groups: number, rows: number): number {
  return Math.min(64 * groups, 8 * Math.ceil(rows / 8));
}
