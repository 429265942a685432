import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { topDistillationLoss } from "./top-distillation.ts";

const lossMask_BT = tensor([[1]]).ne(0);

function run(policy: number[], teacher: number[], options: Parameters<typeof topDistillationLoss>[1]) {
  const row = (values: number[]) => tensor([[values.map(Math.log)]], { dtype: "float64" });
  const policyLogprobs_BTC = row(policy);
  policyLogprobs_BTC.requiresGrad = true;
  const { loss_BT } = topDistillationLoss(
    { policyLogprobs_BTC, teacherLogprobs_BTC: row(teacher), lossMask_BT },
    options,
  );
  const [gradient] = gradients([loss_BT.sum()], [policyLogprobs_BTC]);
  return { loss: loss_BT.item(), gradient: gradient!.toArray() };
}

test("the rest of the vocabulary is one more outcome", () => {
  // Candidates 0.5 and 0.25 of the teacher leave 0.25; 0.25 and 0.25 of the policy leave 0.5.
  const { loss, gradient } = run([0.25, 0.25], [0.5, 0.25], { direction: "forward", tail: "bucket" });
  expect(loss).toBeCloseTo(0.5 * Math.log(2) + 0.25 * Math.log(0.5), 12);
  // -t_i + t_rest p_i / p_rest.
  expect(gradient[0]).toBeCloseTo(-0.5 + (0.25 * 0.25) / 0.5, 12);
  expect(gradient[1]).toBeCloseTo(-0.25 + (0.25 * 0.25) / 0.5, 12);
});

test("reverse takes the expectation under the policy", () => {
  const { loss } = run([0.25, 0.25], [0.5, 0.25], { direction: "reverse", tail: "bucket" });
  expect(loss).toBeCloseTo(0.25 * Math.log(0.5) + 0.5 * Math.log(2), 12);
});

test("renormalized, mass outside of the candidates costs nothing", () => {
  const { loss } = run([0.1, 0.05], [0.6, 0.3], { direction: "forward", tail: "renormalize" });
  expect(loss).toBeCloseTo(0, 12);
});

test("candidates that take all the mass leave a finite gradient", () => {
  const { loss, gradient } = run([0.5, 0.5], [1, 1e-300], { direction: "forward", tail: "bucket" });
  expect(loss).toBeCloseTo(Math.log(2), 5);
  expect(gradient.every(Number.isFinite)).toBe(true);
});
