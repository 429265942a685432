import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { reinforceLoss } from "./reinforce.ts";

test("the gradient is minus the weighted advantage", () => {
  const inputs = exampleInputs({ ratios: [[1, 2]], advantages: [[3, -1]], weights: [[0.5, 2]] });
  const { losses, gradient } = lossesAndGradient(inputs, reinforceLoss(inputs, { importance: "none" }));
  expect(losses[0]).toBeCloseTo(-0.5 * 3 * -1, 12);
  expect(gradient[0]).toBeCloseTo(-1.5, 12);
  expect(gradient[1]).toBeCloseTo(2, 12);
});

test("with the ratio as weight the gradient is that of -r A", () => {
  const inputs = exampleInputs({ ratios: [[2, 0.5]], advantages: [[3, 3]] });
  const { gradient } = lossesAndGradient(inputs, reinforceLoss(inputs, { importance: "ratio" }));
  expect(gradient[0]).toBeCloseTo(-6, 12);
  expect(gradient[1]).toBeCloseTo(-1.5, 12);
});
