import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { reinforcePlusPlus, reinforcePlusPlusBaseline } from "./reinforce-plus-plus.ts";

const double = (values: number[] | number[][]) => tensor(values, { dtype: "float64" });
const close = (values: number[]) => values.map((value) => expect.closeTo(value, 6));

test("reinforce++ whitens the returns of all tokens together", () => {
  // Returns 1, 2, 3 have mean 2 and deviation 1.
  const mask = tensor(
    [
      [1, 0],
      [1, 1],
    ],
    { dtype: "bool" },
  );
  const { advantages_BT, returns_BT } = reinforcePlusPlus(
    double([
      [1, 0],
      [-1, 3],
    ]),
    mask,
  );
  expect(returns_BT.toArray()).toEqual([1, 0, 2, 3]);
  expect(advantages_BT.toArray()).toEqual(close([-1, 0, 0, 1]));
});

test("reinforce++ discounts across an observation once per loss token", () => {
  const mask = tensor([[1, 0, 1]], { dtype: "bool" });
  expect(reinforcePlusPlus(double([[0, 0, 4]]), mask, { gamma: 0.5 }).returns_BT.toArray()).toEqual([2, 0, 4]);
});

test("the baseline form centers by group and scales by the batch", () => {
  // Centered -1, 1 on one token each, and -3, 3: mean 0, variance (1 + 1 + 9 + 9) / 3.
  const mask = tensor([[1], [1], [1], [1]], { dtype: "bool" });
  const advantages = reinforcePlusPlusBaseline(double([1, 3, 0, 6]), mask, [0, 0, 1, 1]);
  const deviation = Math.sqrt(20 / 3);
  expect(advantages.toArray()).toEqual(close([-1, 1, -3, 3].map((value) => value / deviation)));
});
