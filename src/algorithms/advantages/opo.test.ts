import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { optimalBaseline } from "./opo.ts";

const mask = tensor(
  [
    [1, 1, 1],
    [1, 0, 0],
    [0, 0, 0],
  ],
  { dtype: "bool" },
);

test("the baseline weighs rewards by length", () => {
  // (3 * 0 + 1 * 4) / 4 = 1.
  expect(optimalBaseline(tensor([0, 4, 2]), mask, [0, 0, 1]).toArray()).toEqual([-1, 3, 0]);
});

test("a group without loss tokens takes the plain mean", () => {
  const none = tensor([[0], [0]], { dtype: "bool" });
  expect(optimalBaseline(tensor([1, 3]), none, [0, 0]).toArray()).toEqual([-1, 1]);
});

test("a group of one sample keeps its reward when asked for", () => {
  expect(optimalBaseline(tensor([0, 4, 2]), mask, [0, 0, 1], { singleton: "raw" }).toArray()).toEqual([-1, 3, 2]);
});
