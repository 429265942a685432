import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { LayerNorm } from "./layer-norm.ts";

test("layer norm removes the mean and divides by the standard deviation", () => {
  // Mean 3, variance 4.
  const output = new LayerNorm(2, { eps: 0 }).forward(tensor([[1, 5]]));
  expect(output.toArray()).toEqual([-1, 1]);
});

test("layer norm scales and shifts", () => {
  const layerNorm = new LayerNorm(2, { eps: 0 });
  layerNorm.loadStateDict(
    new Map([
      ["weight", tensor([2, 3])],
      ["bias", tensor([10, 20])],
    ]),
  );
  expect(layerNorm.forward(tensor([[1, 5]])).toArray()).toEqual([8, 23]);
});

test("layer norm without bias has one parameter", () => {
  expect([...new LayerNorm(2, { hasBias: false }).namedParameters().keys()]).toEqual(["weight"]);
});

test("layer norm names the width it needs", () => {
  expect(() => new LayerNorm(3).forward(tensor([[1, 5]]))).toThrow(
    /LayerNorm got an input of shape \[1, 2\].*must be 3/,
  );
});
