import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { tensor } from "../../../torch/create.ts";
import { distillationLoss } from "./distillation.ts";

const p = [0.5, 0.25, 0.25];
const t = [0.25, 0.25, 0.5];
const lossMask_BT = tensor([[1]]).ne(0);
const logits = (probabilities: number[], scale = 1) =>
  tensor([[probabilities.map((value) => scale * Math.log(value))]], { dtype: "float64" });

function run(direction: "forward" | "reverse", { temperature = 1, policy = logits(p), teacher = logits(t) } = {}) {
  policy.requiresGrad = true;
  const inputs = { policyLogits_BTV: policy, teacherLogits_BTV: teacher, lossMask_BT };
  const { loss_BT } = distillationLoss(inputs, { direction, temperature });
  const [gradient] = gradients([loss_BT.sum()], [policy]);
  return { loss: loss_BT.item(), gradient: gradient!.toArray() };
}

test("forward: the gradient with respect to the scores is p - t", () => {
  const { loss, gradient } = run("forward");
  expect(loss).toBeCloseTo(0.25 * Math.log(0.5) + 0.5 * Math.log(2), 12);
  expect(gradient[0]).toBeCloseTo(0.25, 12);
  expect(gradient[1]).toBeCloseTo(0, 12);
  expect(gradient[2]).toBeCloseTo(-0.25, 12);
});

test("reverse: the gradient with respect to the scores is p (log(p / t) - KL)", () => {
  const { loss, gradient } = run("reverse");
  const kl = 0.5 * Math.log(2) + 0.25 * Math.log(0.5);
  expect(loss).toBeCloseTo(kl, 12);
  expect(gradient[0]).toBeCloseTo(0.5 * (Math.log(2) - kl), 12);
  expect(gradient[1]).toBeCloseTo(0.25 * -kl, 12);
  expect(gradient[2]).toBeCloseTo(0.25 * (Math.log(0.5) - kl), 12);
});

test("a temperature divides the scores and keeps the size of the gradient", () => {
  // At temperature 2, scores twice as large make the same distributions; the loss is 4 times as large.
  const { loss, gradient } = run("forward", { temperature: 2, policy: logits(p, 2), teacher: logits(t, 2) });
  expect(loss).toBeCloseTo(4 * run("forward").loss, 12);
  expect(gradient[0]).toBeCloseTo(2 * 0.25, 12);
});

test.each(["forward", "reverse"] as const)(
  "%s: tokens ruled out with minus infinity have finite gradients",
  (direction) => {
    const none = Number.NEGATIVE_INFINITY;
    const policy = tensor([[[0, 1, none]]], { dtype: "float64" });
    const teacher = tensor([[[0, none, none]]], { dtype: "float64" });
    const { loss, gradient } = run(direction, { policy, teacher });
    expect(Number.isFinite(loss)).toBe(true);
    expect(gradient.every(Number.isFinite)).toBe(true);
    expect(gradient[2]).toBe(0);
  },
);

test("a token with NaN scores has loss 0 and gradient 0", () => {
  const { loss, gradient } = run("reverse", { teacher: tensor([[[Number.NaN, 0, 0]]], { dtype: "float64" }) });
  expect([loss, ...gradient].map(Math.abs)).toEqual([0, 0, 0, 0]);
});

test("a mask of other tokens is refused", () => {
  const inputs = { policyLogits_BTV: logits(p), teacherLogits_BTV: logits(t), lossMask_BT: tensor([[1, 1]]).ne(0) };
  expect(() => distillationLoss(inputs, { direction: "forward" })).toThrow(
    /policyLogits_BTV has shape \[1, 1, 3\] but lossMask_BT has \[1, 2\]/,
  );
});
