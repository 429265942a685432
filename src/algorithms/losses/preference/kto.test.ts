import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { ktoLoss } from "./kto.ts";

const rows = (...values: number[]) => tensor(values, { dtype: "float64" });
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

test("a wanted reply is pulled above the baseline, an unwanted one pushed below it, each with its weight", () => {
  const policyLogprobs_B = rows(-2, -2);
  policyLogprobs_B.requiresGrad = true;
  const isDesirable_B = tensor([1, 0]).ne(0);
  const inputs = { policyLogprobs_B, referenceLogprobs_B: rows(-5, -3), isDesirable_B, mismatchedGain: 2 };
  const options = { beta: 0.5, desirableWeight: 2, undesirableWeight: 3 };
  const { loss_B, metrics } = ktoLoss(inputs, options);
  // Gains are 3 and 1, so 0.5 (3 - 2) and 0.5 (2 - 1).
  const [wanted, unwanted] = loss_B.toArray() as [number, number];
  expect(wanted).toBeCloseTo(2 * (1 - sigmoid(0.5)), 12);
  expect(unwanted).toBeCloseTo(3 * (1 - sigmoid(0.5)), 12);
  const slope = 0.5 * sigmoid(0.5) * sigmoid(-0.5);
  const gradient = gradients([loss_B.sum()], [policyLogprobs_B])[0]!.toArray();
  expect(gradient[0]).toBeCloseTo(-2 * slope, 12);
  expect(gradient[1]).toBeCloseTo(3 * slope, 12);
  expect(readMetrics(metrics)).toMatchObject({
    "preference/accuracy": 1,
    "preference/chosen_reward": 1.5,
    "preference/rejected_reward": 0.5,
  });
});

test("a reply with an infinite log-prob has loss 0 and gradient 0", () => {
  const policyLogprobs_B = rows(Number.NEGATIVE_INFINITY);
  policyLogprobs_B.requiresGrad = true;
  const inputs = {
    policyLogprobs_B,
    referenceLogprobs_B: rows(-5),
    isDesirable_B: tensor([1]).ne(0),
    mismatchedGain: 0,
  };
  const { loss_B } = ktoLoss(inputs, { beta: 0.5 });
  expect(loss_B.item()).toBe(0);
  expect(gradients([loss_B.sum()], [policyLogprobs_B])[0]!.item()).toBe(0);
});

test.each([
  ["negative", -3],
  ["unknown", Number.NaN],
])("the baseline is 0 where the mean gain of mismatched replies is %s", (_, mismatchedGain) => {
  const isDesirable_B = tensor([1]).ne(0);
  const inputs = { policyLogprobs_B: rows(-4), referenceLogprobs_B: rows(-5), isDesirable_B, mismatchedGain };
  expect(ktoLoss(inputs, { beta: 0.5 }).loss_B.item()).toBeCloseTo(1 - sigmoid(0.5), 12);
});
