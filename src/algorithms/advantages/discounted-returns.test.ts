import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { discountedReturns } from "./discounted-returns.ts";

const double = (values: number[][]) => tensor(values, { dtype: "float64" });
const bool = (values: number[][]) => tensor(values, { dtype: "bool" });

test("returns are discounted per loss token", () => {
  const returns = discountedReturns(double([[1, 2, 4]]), bool([[1, 1, 1]]), { gamma: 0.5 });
  expect(returns.toArray()).toEqual([3, 4, 4]);
});

test("observation tokens pass a return on undiscounted and hold none", () => {
  const returns = discountedReturns(double([[0, 0, 0, 8, 0]]), bool([[1, 0, 0, 1, 0]]), { gamma: 0.5 });
  expect(returns.toArray()).toEqual([4, 0, 0, 8, 0]);
});

test("a reward outside the mask is credited to the loss token before it, or dropped", () => {
  const [rewards, mask] = [double([[3, 0, 1, 8]]), bool([[0, 1, 0, 0]])];
  expect(discountedReturns(rewards, mask, { gamma: 0.5 }).toArray()).toEqual([0, 9, 0, 0]);
  expect(discountedReturns(rewards, mask, { rewardsOutsideMask: "drop" }).toArray()).toEqual([0, 0, 0, 0]);
});

test("rows do not touch each other", () => {
  const returns = discountedReturns(
    double([
      [1, 0],
      [0, 5],
    ]),
    bool([
      [1, 1],
      [1, 1],
    ]),
  );
  expect(returns.toArray()).toEqual([1, 0, 5, 5]);
});
