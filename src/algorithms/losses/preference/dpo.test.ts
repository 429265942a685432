import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { type DpoOptions, dpoLoss } from "./dpo.ts";
import { sequenceLogprobs } from "./sequence-logprobs.ts";

const rows = (...values: number[]) => tensor(values, { dtype: "float64" });
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

// h = ((-3) - (-5)) - ((-4) - (-3)) = 3.
function run(options: DpoOptions, chosenPolicy = rows(-3)) {
  const rejectedPolicy = rows(-4);
  for (const trained of [chosenPolicy, rejectedPolicy]) trained.requiresGrad = true;
  const output = dpoLoss(
    {
      chosen: { policyLogprobs_B: chosenPolicy, referenceLogprobs_B: rows(-5) },
      rejected: { policyLogprobs_B: rejectedPolicy, referenceLogprobs_B: rows(-3) },
    },
    options,
  );
  const grads = gradients([output.loss_B.sum()], [chosenPolicy, rejectedPolicy]);
  return {
    loss: output.loss_B.item(),
    gradient: grads.map((gradient) => gradient!.item()),
    metrics: readMetrics(output.metrics),
  };
}

test("sigmoid: the gradient is beta sigmoid(-beta h), down for the chosen and up for the rejected", () => {
  const { loss, gradient, metrics } = run({ type: "sigmoid", beta: 0.5 });
  expect(loss).toBeCloseTo(-Math.log(sigmoid(1.5)), 12);
  expect(gradient[0]).toBeCloseTo(-0.5 * sigmoid(-1.5), 12);
  expect(gradient[1]).toBeCloseTo(0.5 * sigmoid(-1.5), 12);
  expect(metrics).toMatchObject({
    "preference/accuracy": 1,
    "preference/margin": 1.5,
    "preference/chosen_reward": 1,
    "preference/rejected_reward": -0.5,
  });
});

test("label smoothing mixes in the loss of the swapped pair", () => {
  const { loss } = run({ type: "sigmoid", beta: 0.5, labelSmoothing: 0.1 });
  expect(loss).toBeCloseTo(-0.9 * Math.log(sigmoid(1.5)) - 0.1 * Math.log(sigmoid(-1.5)), 12);
});

test("ipo is a square around 1 / (2 beta), hinge a margin of 1 / beta", () => {
  expect(run({ type: "ipo", beta: 0.5 })).toMatchObject({ loss: 4, gradient: [4, -4] });
  expect(run({ type: "hinge", beta: 0.25 })).toMatchObject({ loss: 0.25, gradient: [-0.25, 0.25] });
  expect(run({ type: "hinge", beta: 0.5 }).loss).toBe(0);
});

test("a pair with an infinite log-prob has loss 0 and gradient 0, and is counted", () => {
  const { loss, gradient, metrics } = run({ type: "sigmoid", beta: 0.5 }, rows(Number.NEGATIVE_INFINITY));
  expect([loss, ...gradient].map(Math.abs)).toEqual([0, 0, 0]);
  expect(metrics["preference/nonfinite_fraction"]).toBe(1);
});

test("the log-prob of a reply is the sum, or the mean, over its tokens", () => {
  const logprobs_BT = tensor([[-1, -3, Number.NaN]], { dtype: "float64" });
  const lossMask_BT = tensor([[1, 1, 0]]).ne(0);
  expect(sequenceLogprobs(logprobs_BT, lossMask_BT).toArray()).toEqual([-4]);
  expect(sequenceLogprobs(logprobs_BT, lossMask_BT, { isPerToken: true }).item()).toBeCloseTo(-2, 7);
});

test("sides with different numbers of rows are refused", () => {
  const side = (count: number) => {
    const values = rows(...Array<number>(count).fill(0));
    return { policyLogprobs_B: values, referenceLogprobs_B: values };
  };
  expect(() => dpoLoss({ chosen: side(2), rejected: side(1) }, { type: "ipo", beta: 1 })).toThrow(
    /rejected.policyLogprobs_B has shape \[1\] but chosen.policyLogprobs_B has \[2\]/,
  );
});
