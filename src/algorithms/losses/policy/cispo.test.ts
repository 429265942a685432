import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { cispoLoss } from "./cispo.ts";

const clip = { clipLow: 0.2, clipHigh: 0.28 };

test("a clipped token keeps the gradient of its log-prob, times the clipped ratio", () => {
  const inputs = exampleInputs({ ratios: [[2, 0.5, 1.1]], advantages: [[1, -1, 1]] });
  const { losses, gradient } = lossesAndGradient(inputs, cispoLoss(inputs, { ...clip, dropsPpoClipped: false }));
  expect(gradient[0]).toBeCloseTo(-1.28, 12);
  expect(gradient[1]).toBeCloseTo(0.8, 12);
  expect(gradient[2]).toBeCloseTo(-1.1, 12);
  expect(losses[0]).toBeCloseTo(-1.28 * (Math.log(2) - 1), 12);
});

test("the unified mask drops what PPO would clip, and nothing else", () => {
  const inputs = exampleInputs({ ratios: [[2, 2, 0.5, 0.5]], advantages: [[1, -1, 1, -1]] });
  const { gradient } = lossesAndGradient(inputs, cispoLoss(inputs, { ...clip, dropsPpoClipped: true }));
  expect(gradient.map((value) => value + 0)).toEqual([0, 1.28, -0.8, 0]);
});
