import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { remax } from "./remax.ts";

const mask = tensor(
  [
    [1, 0, 1],
    [1, 1, 0],
  ],
  { dtype: "bool" },
);

test("remax subtracts the reward of the greedy reply on loss tokens", () => {
  const { advantages_BT, returns_BT } = remax(
    tensor([
      [1, 0, 2],
      [0, 4, 0],
    ]),
    tensor([1, 5]),
    mask,
  );
  expect(returns_BT.toArray()).toEqual([3, 0, 2, 4, 4, 0]);
  expect(advantages_BT.toArray()).toEqual([2, 0, 1, -1, -1, 0]);
});

test("remax refuses a baseline that is not a number", () => {
  expect(() =>
    remax(
      tensor([
        [1, 0, 2],
        [0, 4, 0],
      ]),
      tensor([1, Number.NaN]),
      mask,
    ),
  ).toThrow(/greedyRewards_B must be finite/);
});
