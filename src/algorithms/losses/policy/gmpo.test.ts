import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { readMetrics } from "../loss-metrics.ts";
import { gmpoLoss } from "./gmpo.ts";

const clip = { clipLow: 0.4, clipHigh: 0.4 };

test("the loss of a sequence is minus its advantage times the geometric mean of clipped ratios", () => {
  // log 4 is clipped to 0.4 where A > 0; log 1 is 0; the mean is 0.2.
  const inputs = exampleInputs({ ratios: [[4, 1]], advantages: [[2, 2]] });
  const output = gmpoLoss(inputs, clip);
  const { losses, gradient } = lossesAndGradient(inputs, output);
  expect(losses[0]).toBeCloseTo(-2 * Math.exp(0.2), 7);
  expect(gradient[0]).toBe(0);
  expect(gradient[1]).toBeCloseTo(-Math.exp(0.2), 7);
  expect(readMetrics(output.metrics)["policy/clip_fraction_positive"]).toBe(0.5);
});

test("where A < 0 the other side is clipped", () => {
  const inputs = exampleInputs({ ratios: [[4, 0.25]], advantages: [[-1, -1]] });
  const { losses } = lossesAndGradient(inputs, gmpoLoss(inputs, clip));
  expect(losses[0]).toBeCloseTo(Math.exp((Math.log(4) - 0.4) / 2), 7);
});

test("importance weights enter by their geometric mean", () => {
  const inputs = exampleInputs({ ratios: [[1, 1]], advantages: [[1, 1]], weights: [[4, 1]] });
  expect(lossesAndGradient(inputs, gmpoLoss(inputs, clip)).losses[0]).toBeCloseTo(-2, 7);
});
