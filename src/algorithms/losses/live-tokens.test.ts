import { expect, test } from "vitest";
import { full, tensor } from "../../torch/create.ts";
import { liveTokens } from "./live-tokens.ts";

const lossMask_BT = tensor([[1, 1, 1, 0]]).ne(0);

test("a loss token is live where all values are finite", () => {
  const first = tensor([[0, Number.NaN, 0, 0]]);
  const second = tensor([[0, 0, Number.NEGATIVE_INFINITY, 0]]);
  expect(liveTokens(lossMask_BT, [first, second]).toArray()).toEqual([1, 0, 0, 0]);
});

test("infinities of both signs do not cancel", () => {
  const values = tensor([
    [
      [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
      [Number.NaN, 0],
      [1, 2],
      [1, 2],
    ],
  ]);
  expect(liveTokens(lossMask_BT, [values]).toArray()).toEqual([0, 0, 1, 0]);
});

test("the scores of a large vocabulary are finite in float16 too", () => {
  const scores = full([1, 4, 4096], -50, { dtype: "float16" });
  expect(liveTokens(lossMask_BT, [scores]).toArray()).toEqual([1, 1, 1, 0]);
});
