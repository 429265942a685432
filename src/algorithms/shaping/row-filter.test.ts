import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { isLearnable } from "./difficulty-filter.ts";
import { keepRows } from "./row-filter.ts";
import { maskTruncated } from "./truncated-mask.ts";
import { hasVariance } from "./zero-variance-filter.ts";

const lossMask_BT = tensor(
  [
    [1, 0],
    [1, 1],
  ],
  { dtype: "bool" },
);

test("rows that are not kept lose their loss tokens", () => {
  expect(keepRows(lossMask_BT, [false, true]).toArray()).toEqual([0, 0, 1, 1]);
  expect(() => keepRows(lossMask_BT, [true])).toThrow(/isKept has 1 entries for 2 rows/);
});

test("truncated rows do not train", () => {
  expect(maskTruncated(lossMask_BT, [false, true]).toArray()).toEqual([1, 0, 0, 0]);
});

test("a group of equal rewards has no variance, nor has a group of one", () => {
  const rewards_B = tensor([1, 0, 1, 1, 1]);
  expect(hasVariance(rewards_B, [0, 1, 0, 1, 2])).toEqual([false, true, false, true, false]);
});

test("rewards within the tolerance count as equal", () => {
  const rewards_B = tensor([0.5, 0.5625]);
  expect(hasVariance(rewards_B, [0, 0], { tolerance: 0.0625 })).toEqual([false, false]);
  expect(hasVariance(rewards_B, [0, 0], { tolerance: 0.06 })).toEqual([true, true]);
});

test("by default a prompt is learnable when some pass and some fail", () => {
  const [isPassed, groupOf] = [
    [true, true, false, true, false, false],
    [0, 0, 1, 1, 2, 2],
  ];
  expect(isLearnable(isPassed, groupOf)).toEqual([false, false, true, true, false, false]);
});

test("the bounds of the pass rate are not part of the range", () => {
  const [isPassed, groupOf] = [
    [true, false, false, false],
    ["a", "a", "a", "a"],
  ];
  expect(isLearnable(isPassed, groupOf, { low: 0.25 })[0]).toBe(false);
  expect(isLearnable(isPassed, groupOf, { low: 0.24, high: 0.26 })[0]).toBe(true);
});

test("bounds that hold nothing are refused", () => {
  expect(() => isLearnable([true], [0], { low: 0.5, high: 0.5 })).toThrow(/low must be below high: got 0.5 and 0.5/);
});
