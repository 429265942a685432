/**
 * The four configurations of verl's rollout-correction guide, from their option strings through recipes to updates. Each
 * gradient is compared with that of the pieces put together by hand.
 */
import { describe, expect, test } from "vitest";
import { gae } from "../../src/algorithms/advantages/gae.ts";
import { groupRelative } from "../../src/algorithms/advantages/group-relative.ts";
import { leaveOneOut } from "../../src/algorithms/advantages/leave-one-out.ts";
import { toLastToken, toTokens } from "../../src/algorithms/advantages/token-values.ts";
import { resolveCorrection } from "../../src/algorithms/corrections/correction-options.ts";
import { parseVerlOverrides } from "../../src/algorithms/corrections/parse-verl-options.ts";
import { correctRollout } from "../../src/algorithms/corrections/rollout-correction.ts";
import type { LossOutput } from "../../src/algorithms/losses/loss-output.ts";
import { reduceOutput } from "../../src/algorithms/losses/loss-output.ts";
import { bypassLoss } from "../../src/algorithms/losses/policy/bypass.ts";
import { ppoClipLoss } from "../../src/algorithms/losses/policy/ppo-clip.ts";
import { buildRecipe, type RecipeChoice } from "../../src/algorithms/recipes/table.ts";
import { fromVerl } from "../../src/algorithms/recipes/verl-correction.ts";
import { globalDenominators } from "../../src/algorithms/reduce.ts";
import { whiten } from "../../src/algorithms/whiten.ts";
import type { TokenBatch } from "../../src/flow/token-batch.ts";
import { gradients } from "../../src/torch/autograd.ts";
import { randn, tensor } from "../../src/torch/create.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const clip = { clipLow: 0.2, clipHigh: 0.2, dualClip: 3 };
const tokenMean = { type: "token-mean" } as const;
const groupOf = [0, 0, 1, 1];
const rewards_B = tensor([1, 0, 1, 0.5], { dtype: "float64" });
const lossMask_BT = tensor([
  [1, 1, 1, 1],
  [1, 1, 1, 0],
  [1, 0, 1, 0],
  [1, 1, 1, 1],
]).ne(0);
const samplerLogprobs_BT = noise(1, 0.4).sub(1.5);
const anchorLogprobs_BT = samplerLogprobs_BT.add(noise(2, 0.3));
const values_BT = noise(3, 0.1);
const batch: TokenBatch = {
  samplerLogprobs_BT,
  anchorLogprobs_BT,
  values_BT,
  rewards_BT: toLastToken(rewards_B, lossMask_BT),
  lossMask_BT,
  groupOf,
  trajectoryOf: [0, 1, 2, 3],
  turnOf: [0, 0, 0, 0],
  isTruncated: [false, false, false, false],
};

describe("RLOO with self-normalized sequence weights, REINFORCE in bypass mode", () => {
  const overrides = [
    "algorithm.rollout_correction.rollout_is=sequence",
    "algorithm.rollout_correction.rollout_is_threshold=2.0",
    "algorithm.rollout_correction.rollout_is_batch_normalize=true",
    "algorithm.rollout_correction.rollout_rs=null",
    "algorithm.rollout_correction.rollout_rs_threshold=null",
    "algorithm.rollout_correction.bypass_mode=true",
    "algorithm.rollout_correction.loss_type=reinforce",
  ];

  test("runs, with the gradient of its pieces", () => {
    const [step] = train({ type: "rloo", ...fromVerl(overrides) });
    const advantages_BT = toTokens(leaveOneOut(rewards_B, groupOf), lossMask_BT);
    expectGradient(step, bypassGradient(overrides, advantages_BT, { type: "reinforce" }));
  });

  test("needs the trainer's own log-probs for the mean weight of the batch", () => {
    const recipe = buildRecipe({ type: "rloo", ...fromVerl(overrides) });
    const { anchorLogprobs_BT: _, ...withoutAnchor } = batch;
    expect(recipe.needs).toContain("anchorLogprobs_BT");
    expect(() => recipe.score(withoutAnchor)).toThrow(/anchorLogprobs_BT is missing from the batch: rloo/);
  });
});

describe("GRPO with token weights and two rejections, PPO-clip in bypass mode", () => {
  const overrides = [
    "algorithm.rollout_correction.rollout_is=token",
    "algorithm.rollout_correction.rollout_is_threshold=2.0",
    "algorithm.rollout_correction.rollout_is_batch_normalize=false",
    "algorithm.rollout_correction.rollout_rs=\\'token_k1,seq_max_k2\\'",
    "algorithm.rollout_correction.rollout_rs_threshold=\\'0.6_1.6,2.5\\'",
    "algorithm.rollout_correction.bypass_mode=true",
    "algorithm.rollout_correction.loss_type=ppo_clip",
  ];

  test("runs without an anchor, with the gradient of its pieces", () => {
    const choice: RecipeChoice = { type: "grpo", reduction: tokenMean, ...fromVerl(overrides) };
    expect(buildRecipe(choice).needs).toEqual([]);
    const [step] = train(choice);
    const advantages_BT = toTokens(groupRelative(rewards_B, groupOf), lossMask_BT);
    expectGradient(step, bypassGradient(overrides, advantages_BT, { type: "ppo-clip", ...clip }));
  });

  test("refuses four epochs, unless they are allowed", () => {
    const { correction, bypass } = fromVerl(overrides);
    expect(() => buildRecipe({ type: "grpo", numEpochs: 4, correction, bypass })).toThrow(/one epoch: got 4/);
    const allowed = { ...bypass, allowsSeveralEpochs: true };
    expect(train({ type: "grpo", numEpochs: 4, correction, bypass: allowed })).toHaveLength(4);
  });
});

describe("GAE with sequence weights and token rejection, decoupled over four epochs", () => {
  const overrides = [
    "algorithm.rollout_correction.rollout_is=sequence",
    "algorithm.rollout_correction.rollout_is_threshold=2.0",
    "algorithm.rollout_correction.rollout_rs=token_k1",
    "algorithm.rollout_correction.rollout_rs_threshold=0.5_2.0",
    "algorithm.rollout_correction.bypass_mode=false",
  ];

  test("runs, with the gradient of its pieces, and the loss falls", () => {
    const steps = train({ type: "ppo", numEpochs: 4, ...fromVerl(overrides) });
    const corrected = correctRollout(
      { policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT },
      resolveCorrection(parseVerlOverrides(overrides).correction),
    );
    const mask_BT = corrected.lossMask_BT;
    const raw = gae({ rewards_BT: batch.rewards_BT, values_BT, lossMask_BT: mask_BT }).advantages_BT;
    expectGradient(steps[0], decoupledGradient(whiten(raw, mask_BT), mask_BT, corrected.weights_BT));
    expect(steps).toHaveLength(4);
    expect(steps[3]!.loss).toBeLessThan(steps[0]!.loss);
  });
});

test("rejection only runs, with the gradient of its pieces", () => {
  const overrides = [
    "algorithm.rollout_correction.rollout_is=null",
    "algorithm.rollout_correction.rollout_rs=token_k1",
    "algorithm.rollout_correction.rollout_rs_threshold=0.5_2.0",
  ];
  const [step] = train({ type: "grpo", reduction: tokenMean, ...fromVerl(overrides) });
  const corrected = correctRollout(
    { policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT },
    resolveCorrection(parseVerlOverrides(overrides).correction),
  );
  expect(corrected.weights_BT).toBeNull();
  const advantages_BT = toTokens(groupRelative(rewards_B, groupOf), corrected.lossMask_BT);
  expectGradient(step, decoupledGradient(advantages_BT, corrected.lossMask_BT, null));
});

test("options that change nothing are no correction", () => {
  expect(fromVerl({ rollout_is_threshold: 2 })).toEqual({ correction: null, bypass: null });
});

interface Step {
  readonly loss: number;
  readonly gradient: number[];
}

/** One rollout: score once, then a step of plain gradient descent on the log-probs and values per epoch. */
function train(choice: RecipeChoice): Step[] {
  const recipe = buildRecipe(choice);
  const scored = recipe.score(recipe.needs.includes("anchorLogprobs_BT") ? batch : withoutAnchor());
  let [policy_BT, value_BT] = [anchorLogprobs_BT, values_BT];
  return Array.from({ length: recipe.numEpochs }, () => {
    const [policyLogprobs_BT, predicted_BT] = [leaf(policy_BT), leaf(value_BT)];
    const { loss } = recipe.loss({ rows: scored, policyLogprobs_BT, values_BT: predicted_BT }, scored.denominators);
    const [gradient_BT, valueGradient_BT] = gradients([loss], [policyLogprobs_BT, predicted_BT]);
    policy_BT = policy_BT.sub(gradient_BT!);
    if (valueGradient_BT) value_BT = value_BT.sub(valueGradient_BT);
    return { loss: loss.item(), gradient: gradient_BT!.toArray() };
  });
}

function withoutAnchor(): TokenBatch {
  const { anchorLogprobs_BT: _, ...rest } = batch;
  return rest;
}

type BypassLossOptions = Parameters<typeof bypassLoss>[1]["loss"];

function bypassGradient(overrides: string[], advantages_BT: Tensor, loss: BypassLossOptions): number[] {
  const correction = resolveCorrection(parseVerlOverrides(overrides).correction);
  const policyLogprobs_BT = leaf(anchorLogprobs_BT);
  const inputs = { policyLogprobs_BT, samplerLogprobs_BT, advantages_BT, lossMask_BT };
  const { output, lossMask_BT: kept_BT } = bypassLoss(inputs, { correction, loss });
  return gradientOf(output, policyLogprobs_BT, kept_BT, lossMask_BT);
}

function decoupledGradient(advantages_BT: Tensor, mask_BT: Tensor, weights_BT: Tensor | null): number[] {
  const policyLogprobs_BT = leaf(anchorLogprobs_BT);
  const inputs = { policyLogprobs_BT, anchorLogprobs_BT, advantages_BT, lossMask_BT: mask_BT };
  const output = ppoClipLoss({ ...inputs, ...(weights_BT && { weights_BT }) }, clip);
  return gradientOf(output, policyLogprobs_BT, mask_BT, mask_BT);
}

function gradientOf(output: LossOutput, policyLogprobs_BT: Tensor, kept_BT: Tensor, counted_BT: Tensor): number[] {
  const denominators = globalDenominators(counted_BT, groupOf);
  const loss = reduceOutput(output, { lossMask_BT: kept_BT, groupOf }, tokenMean, denominators);
  return gradients([loss], [policyLogprobs_BT])[0]!.toArray();
}

function expectGradient(step: Step | undefined, expected: readonly number[]): void {
  expect(expected.some((value) => value !== 0)).toBe(true);
  expected.forEach((value, i) => {
    expect(step?.gradient[i]).toBeCloseTo(value, 12);
  });
}

function leaf(values: Tensor): Tensor {
  const copy = values.detach().clone();
  copy.requiresGrad = true;
  return copy;
}

function noise(seed: number, scale: number): Tensor {
  return randn([4, 4], { dtype: "float64", generator: new Generator(seed) }).mul(scale);
}
