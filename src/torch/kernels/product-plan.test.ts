import { expect, test } from "vitest";
import { type ProductKind, type ProductSizes, planProduct } from "./product-plan.ts";

/** Width, MLP, joint queries, keys and values, heads and vocabulary of Qwen2.5 and others. */
const models = [
  { D: 576, I: 1536, N: 960, HK: 576, V: 49152 },
  { D: 896, I: 4864, N: 1152, HK: 896, V: 151936 },
  { D: 1536, I: 8960, N: 2048, HK: 1536, V: 151936 },
  { D: 3584, I: 18944, N: 4608, HK: 3584, V: 152064 },
  { D: 64, I: 64, N: 192, HK: 64, V: 512 },
] as const;

function products({ D, I, N, HK, V }: (typeof models)[number], rows: number): [ProductKind, ProductSizes][] {
  return [
    ["scaled", { inputs: D, outputs: N, rows }],
    ["residual", { inputs: HK, outputs: D, rows }],
    ["gated", { inputs: D, outputs: 2 * I, rows }],
    ["residual", { inputs: I, outputs: D, rows }],
    ["scores", { inputs: D, outputs: V, rows }],
  ];
}

test("the products of Qwen2.5-0.5B are divided as was measured to be fastest", () => {
  const plans = products(models[1], 64).map(([kind, sizes]) => planProduct(kind, sizes));
  expect(plans.map(({ tile, splits, stages }) => [tile, splits, stages])).toEqual([
    [32, 2, 7],
    [64, 4, 4],
    [80, 1, 9],
    [64, 8, 7],
    [144, 1, 7],
  ]);
  expect(plans.map(({ tilesAtOnce, splits }) => tilesAtOnce * splits)).toEqual([72, 56, 122, 112, 132]);
});

test("blocks with many steps have a processor for themselves, and rows of x take no more of it than they need", () => {
  const plans = (rows: number) => products(models[3], rows).map(([kind, sizes]) => planProduct(kind, sizes));
  expect(plans(1).map(({ stageRows, stages }) => [stageRows, stages])).toEqual([
    [8, 16],
    [8, 9],
    [8, 10],
    [8, 9],
    [8, 10],
  ]);
  expect(plans(1).map(({ tilesAtOnce, numTiles }) => numTiles / tilesAtOnce)).toEqual([1, 1, 2, 1, 8]);
  // Two blocks of gate and up share a processor where there are more rows.
  expect(plans(64).map(({ sharedBytes }) => Math.floor(sharedBytes / 1024))).toEqual([200, 200, 105, 200, 200]);
});

test("products of a 7B shape leave processors free, where the next kernel starts meanwhile", () => {
  const plans = products(models[3], 1).map(([kind, sizes]) => planProduct(kind, sizes));
  expect(plans.map(({ tilesAtOnce, splits }) => tilesAtOnce * splits)).toEqual([116, 112, 132, 112, 132]);
  expect(plans.map(({ tile }) => tile)).toEqual([80, 128, 144, 128, 144]);
});

test("a thread of a draw, one of 256 for a row, holds no more than eight tiles of scores of a large vocabulary", () => {
  const tilesEach = [...models, { D: 2048, V: 262144 }].map(({ D, V }) => {
    return Math.ceil(planProduct("scores", { inputs: D, outputs: V, rows: 64 }).numTiles / 256);
  });
  expect(tilesEach).toEqual([2, 5, 5, 5, 1, 8]);
});

test("gate and up of more than 128 rows are multiplied with 256 at a time", () => {
  const plan = (rows: number) => planProduct("gated", { inputs: 896, outputs: 9728, rows });
  expect([plan(128).groups, plan(129).groups, plan(256).numRowTiles]).toEqual([2, 4, 1]);
});

test("all counts of rows up to 64 are divided alike, and all above: a kernel serves many batch sizes", () => {
  const plan = (rows: number) => {
    const { tile, splits, stages, groups } = planProduct("residual", { inputs: 4864, outputs: 896, rows });
    return [tile, splits, stages, groups];
  };
  expect([plan(1), plan(33)]).toEqual([plan(64), plan(64)]);
  expect([plan(65), plan(200)]).toEqual([plan(256), plan(256)]);
  expect(planProduct("scaled", { inputs: 896, outputs: 1152, rows: 200 }).numRowTiles).toBe(2);
});

test.each([1, 64, 65, 256])(
  "every plan for %i rows covers its output, fits a processor and can be summed by its cluster",
  (rows) => {
    for (const [kind, sizes] of models.flatMap((model) => products(model, rows))) {
      const plan = planProduct(kind, sizes);
      const width = kind === "gated" ? sizes.outputs / 2 : sizes.outputs;
      expect(plan.numTiles * plan.columns).toBeGreaterThanOrEqual(width);
      expect((plan.numTiles - 1) * plan.columns).toBeLessThan(width);
      expect(plan.numRowTiles * 64 * plan.groups).toBeGreaterThanOrEqual(rows);
      // A tile is a multiple of what the tensor cores take, its rows of the matrix no more than the copy engine does.
      expect([plan.tile % 8, plan.columns % 8, plan.columns <= 256]).toEqual([0, 0, true]);
      expect(plan.sharedBytes).toBeLessThanOrEqual(227 * 1024);
      // Each block of a cluster sums as many rows, and whole warps of four rows each.
      expect((64 * plan.groups) % (4 * plan.splits)).toBe(0);
      const turns = Math.ceil(plan.numTiles / plan.tilesAtOnce);
      expect(plan.stages).toBeLessThanOrEqual(turns * Math.ceil(sizes.inputs / 64 / plan.splits));
      // What the tensor cores read behind the last stage is there.
      const ring = plan.sharedBytes - 1024 - plan.sumBytes;
      const lastStage = (plan.stages - 1) * (plan.stageRows + plan.tile);
      expect((lastStage + Math.max(64 * plan.groups, plan.stageRows + plan.tile)) * 128).toBeLessThanOrEqual(ring);
      expect(plan.splits).toBeLessThanOrEqual(sizes.inputs / 64);
    }
  },
);
