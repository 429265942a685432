import { expect, test } from "vitest";
import { tensor } from "../../../torch/create.ts";
import { selectLargest, shareToCount, tokenCovariance } from "./token-covariance.ts";

const mask_BT = tensor([
  [1, 1],
  [1, 0],
]).ne(0);

test("the covariance is centered over loss tokens only", () => {
  const logprobs_BT = tensor(
    [
      [-1, -2],
      [-3, -100],
    ],
    { dtype: "float64" },
  );
  const advantages_BT = tensor(
    [
      [2, 0],
      [1, 50],
    ],
    { dtype: "float64" },
  );
  const [first, second, third] = tokenCovariance(logprobs_BT, advantages_BT, mask_BT).toArray();
  expect(first).toBeCloseTo(1, 6);
  expect(second).toBeCloseTo(0, 6);
  expect(third).toBeCloseTo(0, 6);
});

test("the largest eligible scores are selected, all of them where there are fewer", () => {
  const scores_BT = tensor([
    [5, 9],
    [7, 99],
  ]);
  const count = (value: number) => tensor(value, { dtype: "int64" });
  expect(selectLargest(scores_BT, mask_BT, count(2)).toArray()).toEqual([0, 1, 1, 0]);
  expect(selectLargest(scores_BT, mask_BT, count(8)).toArray()).toEqual([1, 1, 1, 0]);
});

test("equal scores that do not all fit are left out together", () => {
  const scores_BT = tensor([
    [5, 9],
    [5, 99],
  ]);
  expect(selectLargest(scores_BT, mask_BT, tensor(2, { dtype: "int64" })).toArray()).toEqual([0, 1, 0, 0]);
});

test("a share is rounded down, to at least one token", () => {
  expect(shareToCount(mask_BT, 0.7).item()).toBe(2);
  expect(shareToCount(mask_BT, 0.0002).item()).toBe(1);
});
