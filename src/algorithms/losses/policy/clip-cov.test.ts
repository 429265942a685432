import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { tensor } from "../../../torch/create.ts";
import { clipCovLoss, clipCovSelection } from "./clip-cov.ts";

const options = { clipLow: 0.2, clipHigh: 0.2, share: 0.3, covarianceLow: 0.5, covarianceHigh: 20 };
// Means: advantage 0, log-prob -2. Covariances 1, 2, 0.6, and 11.9 at the token that PPO clips already.
const inputs = () =>
  exampleInputs({
    ratios: [[1, 1, 1, 1.5]],
    anchor: [[-3, -4, -2.4, -1.6 + 3 - Math.log(1.5)]],
    advantages: [[-1, -1, -1.5, 3.5]],
  });

test("of the tokens in the band, the share with the largest covariance has no loss", () => {
  const example = inputs();
  const { losses, gradient } = lossesAndGradient(example, clipCovLoss(example, options));
  expect(losses.map(Math.abs)).toEqual([1, 0, 1.5, expect.closeTo(4.2, 9)]);
  expect(gradient[1]).toBe(0);
  expect(gradient[0]).toBeCloseTo(1, 12);
});

test("noise draws among the tokens in the band", () => {
  const noise_BT = tensor([[0.9, 0.1, 0.2, 0.99]], { dtype: "float64" });
  expect(clipCovSelection({ ...inputs(), noise_BT }, options).toArray()).toEqual([1, 0, 0, 0]);
});

test("a selection that is given is used as it is", () => {
  const example = inputs();
  const selected_BT = tensor([[0, 0, 1, 0]]).ne(0);
  const { losses } = lossesAndGradient(example, clipCovLoss({ ...example, selected_BT }, options));
  expect(losses[2]).toBe(0);
  expect(losses[1]).toBeCloseTo(1, 12);
});
