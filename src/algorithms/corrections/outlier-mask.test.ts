import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { outlierMask } from "./outlier-mask.ts";

const inputs = {
  policyLogprobs_BT: tensor([
    [Math.log(0.5), Math.log(1e-6), Number.NaN],
    [-1, -1, -1],
  ]),
  samplerLogprobs_BT: tensor([
    [Math.log(0.2), Math.log(0.1), -1],
    [-1, -1, -1],
  ]),
  lossMask_BT: tensor([
    [1, 1, 1],
    [1, 1, 0],
  ]).ne(0),
};

test("tokens with a ratio out of bounds are dropped, and NaN with them", () => {
  const mask_BT = outlierMask(inputs, { of: "ratio", low: 1e-4, high: 100, scope: "token" });
  expect(mask_BT.toArray()).toEqual([1, 0, 0, 1, 1, 0]);
});

test("a veto drops the row", () => {
  const mask_BT = outlierMask(inputs, { of: "ratio", low: 1e-4, high: 100, scope: "sequence" });
  expect(mask_BT.toArray()).toEqual([0, 0, 0, 1, 1, 0]);
});

test("differences of probabilities can be bounded instead", () => {
  // 0.5 - 0.2 = 0.3; 1e-6 - 0.1 = -0.1.
  const mask_BT = outlierMask(inputs, { of: "difference", low: -0.2, high: 0.2, scope: "token" });
  expect(mask_BT.toArray()).toEqual([0, 1, 0, 1, 1, 0]);
});

test("bounds in the wrong order are refused", () => {
  expect(() => outlierMask(inputs, { of: "ratio", low: 2, high: 1, scope: "token" })).toThrow(
    /low must be at most high/,
  );
});
