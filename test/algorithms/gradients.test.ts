/** The gradients of all other losses, against finite differences in float64. Policy losses: every-policy-loss.test.ts. */
import { expect, test } from "vitest";
import { crossEntropyLoss } from "../../src/algorithms/losses/cross-entropy.ts";
import { distillationLoss } from "../../src/algorithms/losses/distillation/distillation.ts";
import { topDistillationLoss } from "../../src/algorithms/losses/distillation/top-distillation.ts";
import { entropyBonus } from "../../src/algorithms/losses/entropy-bonus.ts";
import { bradleyTerryLoss } from "../../src/algorithms/losses/preference/bradley-terry.ts";
import { type DpoOptions, dpoLoss } from "../../src/algorithms/losses/preference/dpo.ts";
import { valueLoss } from "../../src/algorithms/losses/value-loss.ts";
import { actionKlLoss, actionMeanLoss } from "../../src/control/adaptation/action-matching.ts";
import { latentMatchingLoss } from "../../src/control/adaptation/latent-matching.ts";
import { gradients } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

// Twelve numbers without a pattern, away from 0 and from each other.
const values = [-1.3, -0.4, -2.1, -0.9, -3.2, -0.7, -1.8, -0.25, -2.6, -1.1, -0.55, -1.6];
const others = [-0.8, -1.7, -1.2, -0.3, -2.4, -1.9, -0.6, -2.2, -0.45, -1.4, -2.9, -1.05];
const shaped = (numbers: readonly number[], ...shape: number[]) => tensor(Float64Array.from(numbers), shape);
const lossMask_BT = tensor([
  [1, 1, 0],
  [1, 0, 1],
]).ne(0);
const fixed_BT = shaped(others.slice(0, 6), 2, 3);
const fixed_BTV = shaped(others, 2, 3, 2);
const fixed_B = shaped(others.slice(0, 6), 6);

/** Log-probs of two candidates that leave room for others. */
const candidates = (x: Tensor) => x.view(2, 3, 2).sub(1.5);

const dpo = (options: DpoOptions) => (x: Tensor) =>
  dpoLoss(
    {
      chosen: { policyLogprobs_B: x.narrow(0, 0, 6), referenceLogprobs_B: fixed_B },
      rejected: { policyLogprobs_B: x.narrow(0, 6, 6), referenceLogprobs_B: fixed_B.mul(1.3) },
    },
    options,
  ).loss_B;

const directions = ["forward", "reverse"] as const;
const losses: Record<string, (x: Tensor) => Tensor> = {
  value: (x) =>
    valueLoss(
      { values_BT: x.view(4, 3).narrow(0, 0, 2), oldValues_BT: fixed_BT, returns_BT: fixed_BT.mul(0.2), lossMask_BT },
      { valueClip: 0.3 },
    ).loss_BT,
  "value without clip": (x) =>
    valueLoss(
      { values_BT: x.view(4, 3).narrow(0, 0, 2), oldValues_BT: fixed_BT, returns_BT: fixed_BT, lossMask_BT },
      { valueClip: null },
    ).loss_BT,
  entropy: (x) => entropyBonus({ entropies_BT: x.view(4, 3).narrow(0, 0, 2), lossMask_BT }, 0.1).loss_BT,
  "cross-entropy": (x) =>
    crossEntropyLoss({ policyLogprobs_BT: x.view(4, 3).narrow(0, 0, 2), lossMask_BT, weights_BT: fixed_BT }).loss_BT,
  ...Object.fromEntries(
    directions.flatMap((direction) => [
      [
        `distillation ${direction}`,
        (x: Tensor) =>
          distillationLoss(
            { policyLogits_BTV: x.view(2, 3, 2), teacherLogits_BTV: fixed_BTV, lossMask_BT },
            { direction, temperature: 1.7 },
          ).loss_BT,
      ],
      ...(["bucket", "renormalize"] as const).map((tail) => [
        `top distillation ${direction} ${tail}`,
        (x: Tensor) =>
          topDistillationLoss(
            { policyLogprobs_BTC: candidates(x), teacherLogprobs_BTC: candidates(fixed_BTV), lossMask_BT },
            { direction, tail },
          ).loss_BT,
      ]),
      [
        `action KL ${direction}, means`,
        (x: Tensor) =>
          actionKlLoss(
            {
              studentMeans_BTA: x.view(2, 3, 2),
              studentLogStds_BTA: fixed_BTV,
              teacherMeans_BTA: fixed_BTV.mul(0.5),
              teacherLogStds_BTA: fixed_BTV.add(0.2),
              lossMask_BT,
            },
            { direction },
          ).loss_BT,
      ],
      [
        `action KL ${direction}, deviations`,
        (x: Tensor) =>
          actionKlLoss(
            {
              studentMeans_BTA: fixed_BTV,
              studentLogStds_BTA: x.view(2, 3, 2),
              teacherMeans_BTA: fixed_BTV.mul(0.5),
              teacherLogStds_BTA: fixed_BTV,
              lossMask_BT,
            },
            { direction },
          ).loss_BT,
      ],
    ]),
  ),
  "action means": (x) =>
    actionMeanLoss({ studentMeans_BTA: x.view(2, 3, 2), teacherMeans_BTA: fixed_BTV, lossMask_BT }).loss_BT,
  "latents of the student": (x) =>
    latentMatchingLoss(
      { studentLatents_BTZ: x.view(2, 3, 2), teacherLatents_BTZ: fixed_BTV, lossMask_BT },
      { teacherPull: 0 },
    ).loss_BT,
  "dpo sigmoid": dpo({ type: "sigmoid", beta: 0.4, labelSmoothing: 0.1 }),
  "dpo ipo": dpo({ type: "ipo", beta: 0.4 }),
  "dpo hinge": dpo({ type: "hinge", beta: 0.4 }),
  "bradley-terry": (x) =>
    bradleyTerryLoss(
      { chosenScores_B: x.narrow(0, 0, 6), rejectedScores_B: x.narrow(0, 6, 6), margins_B: fixed_B.abs() },
      { centering: 0.05 },
    ).loss_B,
};

test.each(Object.entries(losses))("%s has the gradient of finite differences", (_, loss) => {
  const weigh = (losses: Tensor) =>
    losses
      .flatten()
      .mul(shaped(others.slice(0, 6), 6))
      .sum();
  const x = shaped(values, 12);
  x.requiresGrad = true;
  const gradient = gradients([weigh(loss(x))], [x])[0]!.toArray();
  const step = 1e-5;
  const at = (i: number, by: number) => weigh(loss(shaped(values.with(i, values[i]! + by), 12))).item();
  gradient.forEach((value, i) => {
    expect(value).toBeCloseTo((at(i, step) - at(i, -step)) / (2 * step), 7);
  });
  expect(gradient.some((value) => Math.abs(value) > 0.01)).toBe(true);
});

test.each(
  Object.entries(losses).flatMap(([name, loss]) =>
    [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map((value) => ({ name, loss, value })),
  ),
)("$name stays finite with a gradient of 0 where an input is $value", ({ loss, value }) => {
  const x = shaped(values.with(0, value), 12);
  x.requiresGrad = true;
  const total = loss(x).sum();
  const gradient = gradients([total], [x])[0]!.toArray();
  expect(Number.isFinite(total.item())).toBe(true);
  expect(gradient.every(Number.isFinite)).toBe(true);
  expect(Math.abs(gradient[0]!)).toBe(0);
});
