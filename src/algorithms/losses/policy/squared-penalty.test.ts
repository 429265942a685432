import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { squaredPenaltyLoss } from "./squared-penalty.ts";

test("the square pulls the log-prob back to the anchor: the gradient is -A + beta log r", () => {
  const inputs = exampleInputs({ ratios: [[Math.exp(2)]], advantages: [[3]] });
  const { losses, gradient } = lossesAndGradient(inputs, squaredPenaltyLoss(inputs, { beta: 0.1 }));
  // log policy = 2 - 1; -3 * 1 + 0.05 * 4.
  expect(losses[0]).toBeCloseTo(-2.8, 12);
  expect(gradient[0]).toBeCloseTo(-3 + 0.2, 12);
});

test("beta must be above 0", () => {
  const inputs = exampleInputs({ ratios: [[1]], advantages: [[1]] });
  expect(() => squaredPenaltyLoss(inputs, { beta: 0 })).toThrow(/beta must be a finite number above 0: got 0/);
});
