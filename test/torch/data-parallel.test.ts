import { expect, test } from "vitest";
import { ones, zeros } from "../../src/torch/create.ts";
import { planBuckets } from "../../src/torch/distributed/bucket-plan.ts";
import { launchRanks } from "./ranks/launch-ranks.ts";
import { batchPart, gradientsByName, lossOfPart, SmallModel } from "./ranks/small-model.ts";

test("gradients of two ranks are those of the joined batch, and equal on both", async () => {
  const model = new SmallModel();
  lossOfPart(model, batchPart(0, 1)).backward();
  const expected = gradientsByName(model);

  const outcomes = await launchRanks("data-parallel.ts", 2);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ exitCode: 0, errors: "" });
  const reduced = outcomes.map(({ reports }) => reports[1] as Record<string, number[] | null>);
  expect(reduced[0]).toEqual(reduced[1]);
  for (const [name, values] of Object.entries(expected)) {
    if (values === null) expect(reduced[0]?.[name]).toBeNull();
    else expect(maxDifference(values, reduced[0]?.[name] ?? [])).toBeLessThan(1e-6);
  }

  // Buckets of 64 bytes: the last three trainable parameters, 8 + 32 + 16 bytes, and the first one of 48.
  for (const { reports } of outcomes) expect(reports[0]).toBe(2);
  for (const { reports } of outcomes) {
    expect(reports[2]).toEqual({ inner: null, innerBias: null, outer: null, rarelyUsed: [5, 5], frozen: null });
    expect(reports[3]).toMatchObject({
      code: "PARAMETER_MISMATCH",
      message: expect.stringContaining(
        'number 1 is "inner float32[3, 4]" on rank 0 and "inner float32[3, 5]" on rank 1',
      ),
    });
  }
});

test("buckets go from the last tensor to the first, by type, and a large tensor travels alone", () => {
  const small = Array.from({ length: 3 }, () => zeros([2]));
  const [a, b, c] = small as [(typeof small)[0], (typeof small)[0], (typeof small)[0]];
  const large = ones([100]);
  const other = zeros([1], { dtype: "float64" });
  expect(planBuckets([a, large, b, other, c], 16)).toEqual([[c, b], [other], [large], [a]]);
});

function maxDifference(left: readonly number[], right: readonly number[]): number {
  expect(left.length).toBe(right.length);
  return Math.max(...left.map((value, i) => Math.abs(value - (right[i] ?? Number.NaN))));
}
