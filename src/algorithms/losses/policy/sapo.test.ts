import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { sapoLoss } from "./sapo.ts";

const options = { temperaturePositive: 1, temperatureNegative: 2 };
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

test("at a ratio of 1 the gate is 2 / tau and its gradient that of r A", () => {
  const inputs = exampleInputs({ ratios: [[1, 1]], advantages: [[3, -3]] });
  const { losses, gradient } = lossesAndGradient(inputs, sapoLoss(inputs, options));
  expect(losses).toEqual([-6, 3]);
  expect(gradient).toEqual([-3, 3]);
});

test("far from 1 the gradient fades: 4 s (1 - s) r A with s = sigmoid(tau (r - 1))", () => {
  const inputs = exampleInputs({ ratios: [[5]], advantages: [[1]] });
  const { gradient } = lossesAndGradient(inputs, sapoLoss(inputs, options));
  expect(gradient[0]).toBeCloseTo(-4 * sigmoid(4) * (1 - sigmoid(4)) * 5, 12);
});

test("an advantage of 0 takes the negative temperature and has no loss", () => {
  const inputs = exampleInputs({ ratios: [[2]], advantages: [[0]] });
  expect(Math.abs(lossesAndGradient(inputs, sapoLoss(inputs, options)).losses[0]!)).toBe(0);
});
