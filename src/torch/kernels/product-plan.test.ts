import { expect, test } from "vitest";
import { type ProductKind, type ProductSizes, planProduct } from "./product-plan.ts";

/** Width, MLP, joint queries, keys and values, and heads of Qwen2.5 and others. */
const models = [
  { D: 576, I: 1536, N: 960, HK: 576 },
  { D: 896, I: 4864, N: 1152, HK: 896 },
  { D: 1536, I: 8960, N: 2048, HK: 1536 },
  { D: 3584, I: 18944, N: 4608, HK: 3584 },
  { D: 64, I: 64, N: 192, HK: 64 },
] as const;

function products({ D, I, N, HK }: (typeof models)[number], rows: number): [ProductKind, ProductSizes][] {
  return [
    ["scaled", { inputs: D, outputs: N, rows }],
    ["residual", { inputs: HK, outputs: D, rows }],
    ["gated", { inputs: D, outputs: 2 * I, rows }],
    ["residual", { inputs: I, outputs: D, rows }],
  ];
}

test("the products of Qwen2.5-0.5B are divided as was measured to be fastest", () => {
  const plans = products(models[1], 64).map(([kind, sizes]) => planProduct(kind, sizes));
  expect(plans.map(({ tile, splits, stages }) => [tile, splits, stages])).toEqual([
    [24, 2, 7],
    [32, 4, 4],
    [80, 1, 6],
    [64, 8, 7],
  ]);
  expect(plans.map(({ numTiles, splits }) => numTiles * splits)).toEqual([96, 112, 122, 112]);
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
      expect(plan.stages).toBeLessThanOrEqual(Math.ceil(sizes.inputs / 64 / plan.splits));
      expect(plan.splits).toBeLessThanOrEqual(sizes.inputs / 64);
    }
  },
);
