import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { normalizeRewards } from "./normalize-rewards.ts";

const rewards = tensor([1, 3, 10, 30], { dtype: "float64" });
const tags = ["math", "math", "code", "code"];

test("any key can group rewards", () => {
  const normalized = normalizeRewards(rewards, tags, { mean: "group", deviation: "none" });
  expect(normalized.toArray()).toEqual([-1, 1, -10, 10]);
});

test("mean and deviation each have their own level", () => {
  // Mean 11 over the batch; the deviations of the tags are sqrt 2 and sqrt 200.
  const normalized = normalizeRewards(rewards, tags, { mean: "batch", deviation: "group", epsilon: 0 });
  const expected = [-10 / Math.SQRT2, -8 / Math.SQRT2, -1 / Math.sqrt(200), 19 / Math.sqrt(200)];
  expect(normalized.toArray()).toEqual(expected.map((value) => expect.closeTo(value, 10)));
});

test.each([
  { mean: "none" as const, rest: [1, 3] },
  { mean: "batch" as const, rest: [-2.5, -0.5] },
])("rewards without spread in their group are 0 when the mean is of level $mean", ({ mean, rest }) => {
  const flat = tensor([5, 5, 1, 3], { dtype: "float64" });
  const scaled = normalizeRewards(flat, tags, { mean, deviation: "group", epsilon: 1e-12 });
  expect(scaled.toArray()).toEqual([0, 0, ...rest.map((value) => expect.closeTo(value / Math.SQRT2, 10))]);
});

test("a single row of a key counts when only the batch is asked", () => {
  const normalized = normalizeRewards(tensor([1, 5]), ["a", "b"], { mean: "batch", deviation: "none" });
  expect(normalized.toArray()).toEqual([-2, 2]);
});
