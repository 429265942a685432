import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { passAtK } from "./pass-at-k.ts";

const double = (values: number[]) => tensor(values, { dtype: "float64" });

test("only the best sample counts, for its lead over the second best", () => {
  const advantages = passAtK(double([1, 5, 2, 3, 3]), [0, 0, 0, 1, 1], { scaleByStd: false });
  expect(advantages.toArray()).toEqual([0, 3, 0, 0, 0]);
});

test("the lead is divided by the deviation of the group", () => {
  // 0, 2 has deviation sqrt 2.
  expect(passAtK(double([0, 2]), [0, 0]).toArray()).toEqual([0, expect.closeTo(Math.SQRT2, 5)]);
});

test("a group of one sample gives 0", () => {
  expect(passAtK(double([7]), [0]).toArray()).toEqual([0]);
});
