import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { readMetrics } from "../loss-metrics.ts";
import { klCovLoss } from "./kl-cov.ts";

test("only the tokens with the largest covariance pay for their distance to the anchor", () => {
  const inputs = exampleInputs({
    ratios: [[2, 2, 2]],
    anchor: [[-1, -2, -3]],
    advantages: [[1, 0, -1]],
  });
  // Covariances 1, 0, 1; a share of 0.7 of three tokens is two.
  const output = klCovLoss(inputs, { share: 0.7, penalty: 0.5 });
  const { losses, gradient } = lossesAndGradient(inputs, output);
  expect(losses[0]).toBeCloseTo(-2 + 0.5 * Math.log(2), 12);
  expect(Math.abs(losses[1]!)).toBeCloseTo(0, 12);
  expect(losses[2]).toBeCloseTo(2 + 0.5 * Math.log(2), 12);
  expect(gradient[0]).toBeCloseTo(-2 + 0.5, 12);
  expect(readMetrics(output.metrics)["policy/anchor_kl_abs"]).toBeCloseTo(Math.log(2), 12);
});
