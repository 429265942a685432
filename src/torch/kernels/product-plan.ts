/**
 * How a product of few rows with a large matrix is divided over the processors of a Hopper GPU: see product-kernel.ts.
 *
 * A block multiplies up to 64 or 128 rows with some columns of the output (a tile) and a part of the inner dimension (a split), in steps
 * of 64 that stand in shared memory in stages. The blocks that share a tile are a cluster and add up their parts. The choice depends on
 * the shape alone and so does the order of every sum: a step gives the same numbers whenever it is run.
 */

/**
 * What comes after the product: `scaled` multiplies each row by its norm's factor and adds a bias, `gated` takes silu(gate) * up of two
 * halves, `residual` adds to the residual stream and prepares the next norm.
 */
export type ProductKind = "scaled" | "gated" | "residual";

/** The sizes of x [rows, inputs] times w' with w [outputs, inputs]. */
export interface ProductSizes {
  readonly inputs: number;
  readonly outputs: number;
  readonly rows: number;
}

/** A way to divide a product. */
export interface ProductPlan {
  /** Rows of the matrix that a block takes: columns of the output, or of gate and up in equal parts. */
  readonly tile: number;
  readonly splits: number;
  readonly stages: number;
  /** Groups of four warps, each with 64 rows. */
  readonly groups: 1 | 2;
  /** Columns of the output in a tile, and the tiles that cover it. */
  readonly columns: number;
  readonly numTiles: number;
  readonly numRowTiles: number;
  readonly sharedBytes: number;
}

/** The inner dimension goes by 64 values, which is a line of 128 bytes. */
export const stepWidth = 64;

const lineBytes = 2 * stepWidth;

/** How many blocks run at the same time where they come in clusters of this size: processors stand in groups that no cluster leaves. */
const capacities: Readonly<Record<number, number>> = { 1: 132, 2: 128, 4: 112, 8: 112 };

/** The work that a cluster's exchange takes the time of, for each of its blocks. */
const splitCost = 38;

/** Shared memory that leaves room for the kernel before or after; blocks of a cluster are small before and after. */
const sharedLimits = { whole: 112 * 1024, split: { 1: 140 * 1024, 2: 160 * 1024 } } as const;

/** Plans a product. All counts of rows up to 64 are divided alike, and all above. */
export function planProduct(kind: ProductKind, { inputs, outputs, rows }: ProductSizes): ProductPlan {
  const groups = rows <= 64 ? 1 : 2;
  const numSteps = inputs / stepWidth;
  let best: ProductPlan | undefined;
  let bestCost = Number.POSITIVE_INFINITY;
  for (const splits of kind === "gated" ? [1] : [1, 2, 4, 8]) {
    const steps = Math.ceil(numSteps / splits);
    if (splits > 1 && steps < 4) continue;
    for (let tile = 16; tile <= (kind === "gated" ? 144 : 80); tile += kind === "gated" ? 16 : 8) {
      const plan = { ...divided(kind, outputs, tile, groups, rows), splits, groups } as const;
      const sized = withStages(plan, steps, splits > 1 || kind === "residual");
      if (sized === null) continue;
      const numRowTiles = groups;
      const waves = Math.ceil((plan.numTiles * numRowTiles * splits) / capacities[splits]!);
      // Rows of x come from the second-level cache, those of the matrix from memory.
      const cost = waves * steps * (tile + 32 * groups) + splitCost * splits;
      if (cost < bestCost) [best, bestCost] = [sized, cost];
    }
  }
  return best!;
}

function divided(kind: ProductKind, outputs: number, tile: number, groups: number, rows: number) {
  const [columns, width] = kind === "gated" ? [tile / 2, outputs / 2] : [tile, outputs];
  return { tile, columns, numTiles: Math.ceil(width / columns), numRowTiles: Math.ceil(rows / (64 * groups)) };
}

type Unstaged = Omit<ProductPlan, "stages" | "sharedBytes">;

/** As many stages as there is room for; null where those are too few to have one on its way while another is used. */
function withStages(plan: Unstaged, steps: number, hasSums: boolean): ProductPlan | null {
  const { tile, groups, splits } = plan;
  const stageBytes = (64 * groups + tile) * lineBytes;
  const alignment = 1024;
  const otherBytes = alignment + (hasSums ? 64 * groups * (tile + 4) * 4 : 0);
  const limit = splits === 1 ? sharedLimits.whole : sharedLimits.split[groups];
  const stages = Math.min(steps, Math.floor((limit - otherBytes) / stageBytes), 9);
  return stages < Math.min(3, steps) ? null : { ...plan, stages, sharedBytes: stages * stageBytes + otherBytes };
}
