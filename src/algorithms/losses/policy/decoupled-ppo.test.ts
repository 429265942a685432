import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { decoupledPpoLoss } from "./decoupled-ppo.ts";

// The anchor's log-prob is -1, so these samplers make the weights anchor / sampler 0.5, 4 and 1.
const samplerLogprobs_BT = tensor([[-1 - Math.log(0.5), -1 - Math.log(4), -1]], { dtype: "float64" });
const options = { clipLow: 0.2, clipHigh: 0.2, dualClip: null, weightCap: 2, overCap: "drop" } as const;

function run(overCap: "drop" | "truncate") {
  const inputs = exampleInputs({ ratios: [[1.1, 1.1, 1.5]], advantages: [[2, 2, 2]] });
  const output = decoupledPpoLoss({ ...inputs, samplerLogprobs_BT }, { ...options, overCap });
  return { ...lossesAndGradient(inputs, output), metrics: readMetrics(output.metrics) };
}

test("the clip is around the anchor and the weight corrects for the sampler", () => {
  const { losses, gradient } = run("drop");
  expect(losses[0]).toBeCloseTo(0.5 * -2.2, 12);
  expect(gradient[0]).toBeCloseTo(0.5 * -2.2, 12);
  expect(losses[2]).toBeCloseTo(-2.4, 12);
  expect(gradient[2]).toBe(0);
});

test("a weight over the cap drops the token or becomes the cap", () => {
  expect(run("drop").gradient[1]).toBeCloseTo(0, 12);
  expect(run("truncate").gradient[1]).toBeCloseTo(2 * -2.2, 12);
  expect(run("drop").metrics["policy/weight_cap_fraction"]).toBeCloseTo(1 / 3, 12);
  expect(run("truncate").metrics["policy/sampler_weight"]).toBeCloseTo((0.5 + 2 + 1) / 3, 12);
});

test("a sampler log-prob of minus infinity drops the token", () => {
  const inputs = exampleInputs({ ratios: [[1.1]], advantages: [[2]] });
  const infinite = tensor([[Number.NEGATIVE_INFINITY]], { dtype: "float64" });
  const output = decoupledPpoLoss({ ...inputs, samplerLogprobs_BT: infinite }, options);
  const { losses, gradient } = lossesAndGradient(inputs, output);
  expect([...losses, ...gradient].map(Math.abs)).toEqual([0, 0]);
});
