import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { clip } from "./clip.ts";
import { sumRewards, toLastToken, toTokens } from "./token-values.ts";

const values_B = tensor([3, -1, 5]);
const lossMask_BT = tensor(
  [
    [1, 0, 1, 0],
    [0, 1, 0, 0],
    [0, 0, 0, 0],
  ],
  { dtype: "bool" },
);

test("the value of a row goes to each of its loss tokens", () => {
  expect(toTokens(values_B, lossMask_BT).toArray()).toEqual([3, 0, 3, 0, 0, -1, 0, 0, 0, 0, 0, 0]);
});

test("an outcome goes to the last loss token, and nowhere in a row without one", () => {
  expect(toLastToken(values_B, lossMask_BT).toArray()).toEqual([0, 0, 3, 0, 0, -1, 0, 0, 0, 0, 0, 0]);
});

test("the rewards of a row are summed", () => {
  expect(
    sumRewards(
      tensor([
        [1, 2],
        [0, -4],
      ]),
    ).toArray(),
  ).toEqual([3, -4]);
});

test("one value per row is asked for", () => {
  expect(() => toTokens(tensor([1]), lossMask_BT)).toThrow(/values_B has shape \[1\]/);
});

test("clip bounds values on both sides", () => {
  expect(clip(tensor([-7, 0.5, 3]), 2).toArray()).toEqual([-2, 0.5, 2]);
  expect(() => clip(values_B, 0)).toThrow(/bound must be a finite number above 0: got 0/);
});
