import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { groupRelative } from "./group-relative.ts";

const double = (values: number[]) => tensor(values, { dtype: "float64" });
const close = (values: number[]) => values.map((value) => expect.closeTo(value, 5));

// Group 4 holds rewards 1, 2, 3 (mean 2, deviation 1), group 9 holds 0, 4 (mean 2, deviation sqrt 8).
const rewards = double([1, 0, 2, 4, 3]);
const groupOf = [4, 9, 4, 9, 4];

test("the reward is centered and scaled by its group", () => {
  const half = Math.SQRT1_2;
  expect(groupRelative(rewards, groupOf).toArray()).toEqual(close([-1, -half, 0, half, 1]));
});

test("without scale it is only centered, as in Dr. GRPO", () => {
  expect(groupRelative(rewards, groupOf, { scale: "none" }).toArray()).toEqual([-1, -2, 0, 2, 1]);
});

test("the deviation can be that of the batch", () => {
  // All five rewards have mean 2 and variance (1 + 4 + 0 + 4 + 1) / 4.
  const deviation = Math.sqrt(2.5);
  const advantages = groupRelative(rewards, groupOf, { scale: "batch-std" }).toArray();
  expect(advantages).toEqual(close([-1, -2, 0, 2, 1].map((value) => value / deviation)));
});

test("group-relative advantage is zero when all rewards are equal", () => {
  for (const scale of ["group-std", "batch-std", "none"] as const) {
    expect(groupRelative(double([0.1, 0.1, 0.1]), [0, 0, 0], { scale, epsilon: 0 }).toArray()).toEqual([0, 0, 0]);
  }
});

test("a group of one sample gives nothing, or its reward when asked for", () => {
  const [alone, groups] = [double([3, 1, 5]), [0, 1, 1]];
  expect(groupRelative(alone, groups).toArray()[0]).toBe(0);
  expect(groupRelative(alone, groups, { singleton: "raw" }).toArray()[0]).toBeCloseTo(3, 5);
  expect(groupRelative(alone, groups, { scale: "none", singleton: "raw" }).toArray()).toEqual([3, -2, 2]);
});
