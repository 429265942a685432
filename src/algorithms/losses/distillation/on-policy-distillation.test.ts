import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { readMetrics } from "../loss-metrics.ts";
import { distillationAdvantages, onPolicyDistillationLoss } from "./on-policy-distillation.ts";

const row = (values: number[]) => tensor([values], { dtype: "float64" });
const lossMask_BT = row([1, 1, 0]).ne(0);
const teacherLogprobs_BT = row([-1, -5, Number.NaN]);

function run(gapClip: number | null) {
  const policyLogprobs_BT = row([-2, -3, -9]);
  policyLogprobs_BT.requiresGrad = true;
  const output = onPolicyDistillationLoss({ policyLogprobs_BT, teacherLogprobs_BT, lossMask_BT }, { gapClip });
  const [gradient] = gradients([output.loss_BT.sum()], [policyLogprobs_BT]);
  return { gradient: gradient!.toArray(), metrics: readMetrics(output.metrics) };
}

test("the gradient is log policy - log teacher at each sampled token", () => {
  const { gradient, metrics } = run(null);
  expect(gradient.map((value) => value + 0)).toEqual([-1, 2, 0]);
  expect(metrics["distillation/reverse_kl"]).toBe(0.5);
});

test("a bound keeps single tokens from ruling the step", () => {
  expect(run(1.5).gradient[1]).toBe(1.5);
});

test("averaged over the policy's samples the gradient is that of the reverse KL: p (log(p / t) - KL)", () => {
  const p = [0.7, 0.2, 0.1];
  const t = [0.2, 0.5, 0.3];
  const logits = row(p).log();
  logits.requiresGrad = true;
  // Every token of the vocabulary once, weighted by how often the policy samples it.
  const inputs = { policyLogprobs_BT: logits.logSoftmax(1), teacherLogprobs_BT: row(t).log(), weights_BT: row(p) };
  const all_BT = row([1, 1, 1]).ne(0);
  const { loss_BT } = onPolicyDistillationLoss({ ...inputs, lossMask_BT: all_BT }, { gapClip: null });
  const gradient = gradients([loss_BT.sum()], [logits])[0]!.toArray();
  const kl = p.reduce((sum, pk, k) => sum + pk * Math.log(pk / t[k]!), 0);
  for (const [k, pk] of p.entries()) expect(gradient[k]).toBeCloseTo(pk * (Math.log(pk / t[k]!) - kl), 12);
});

test("as an advantage it is the scaled gap to the sampler, 0 outside the mask", () => {
  const advantages_BT = distillationAdvantages(
    { policyLogprobs_BT: row([-2, -3, 0]), teacherLogprobs_BT, lossMask_BT },
    0.5,
  );
  expect(advantages_BT.toArray()).toEqual([0.5, -1, 0]);
});
