import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { RMSNorm } from "./rms-norm.ts";

test("rms norm divides by the root mean square and scales", () => {
  const rmsNorm = new RMSNorm(4, { eps: 0 });
  rmsNorm.loadStateDict(new Map([["weight", tensor([1, 2, 3, 4])]]));
  // Mean of the squares 16, root 4.
  const output = rmsNorm.forward(tensor([[4, -4, 4, 4]])).toArray();
  for (const [i, expected] of [1, -2, 3, 4].entries()) expect(output[i]).toBeCloseTo(expected, 6);
});

test("rms norm adds eps to the mean square", () => {
  const output = new RMSNorm(2, { eps: 3 }).forward(tensor([[1, 1]])).toArray();
  for (const value of output) expect(value).toBeCloseTo(0.5, 6);
});

test("rms norm names the width it needs", () => {
  expect(() => new RMSNorm(3).forward(tensor([[1, 5]]))).toThrow(/RMSNorm got an input of shape \[1, 2\].*must be 3/);
});
