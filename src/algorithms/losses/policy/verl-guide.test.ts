/** The configurations of verl's rollout-correction guide, from their option strings to a gradient. */
import { expect, test } from "vitest";
import { gradients } from "../../../torch/autograd.ts";
import { randn, tensor } from "../../../torch/create.ts";
import { Generator } from "../../../torch/random.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { gae } from "../../advantages/gae.ts";
import { groupRelative } from "../../advantages/group-relative.ts";
import { leaveOneOut } from "../../advantages/leave-one-out.ts";
import { toLastToken, toTokens } from "../../advantages/token-values.ts";
import { expectBypass } from "../../corrections/bypass-check.ts";
import { readCorrectionMetrics } from "../../corrections/correction-metrics.ts";
import { resolveCorrection } from "../../corrections/correction-options.ts";
import { parseVerlOverrides } from "../../corrections/parse-verl-options.ts";
import { correctRollout } from "../../corrections/rollout-correction.ts";
import { globalDenominators } from "../../reduce.ts";
import { type LossOutput, reduceOutput } from "../loss-output.ts";
import { bypassLoss } from "./bypass.ts";
import { ppoClipLoss } from "./ppo-clip.ts";

const clip = { clipLow: 0.2, clipHigh: 0.2, dualClip: 3 };
const groupOf = [0, 0, 1, 1];
const rewards_B = tensor([1, 0, 1, 0.5], { dtype: "float64" });
const lossMask_BT = tensor([
  [1, 1, 1, 1],
  [1, 1, 1, 0],
  [1, 1, 0, 0],
  [1, 1, 1, 1],
]).ne(0);

function noise(seed: number, scale: number): Tensor {
  return randn([4, 4], { dtype: "float64", generator: new Generator(seed) }).mul(scale);
}
const samplerLogprobs_BT = noise(1, 0.4).sub(1.5);
const anchorLogprobs_BT = samplerLogprobs_BT.add(noise(2, 0.3));

type Estimate = (mask_BT: Tensor) => Tensor;
const rloo: Estimate = (mask_BT) => toTokens(leaveOneOut(rewards_B, groupOf), mask_BT);
const grpo: Estimate = (mask_BT) => toTokens(groupRelative(rewards_B, groupOf), mask_BT);
const critic: Estimate = (mask_BT) =>
  gae({ rewards_BT: toLastToken(rewards_B, mask_BT), values_BT: noise(3, 0.1), lossMask_BT: mask_BT }).advantages_BT;

/** A run of the loop on one rollout: the correction, advantages over what is left, and the loss of every epoch. */
function run(overrides: string[], estimate: Estimate, numEpochs: number) {
  const { correction, isBypass, lossType } = parseVerlOverrides(
    overrides.map((override) => `algorithm.rollout_correction.${override}`),
  );
  expectBypass({ isBypass, numEpochs });
  const resolved = resolveCorrection(correction);
  const loss = lossType === "reinforce" ? ({ type: "reinforce" } as const) : ({ type: "ppo-clip", ...clip } as const);
  const corrected = isBypass
    ? { weights_BT: null, lossMask_BT, metrics: {} }
    : correctRollout({ policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT }, resolved);
  const advantages_BT = estimate(corrected.lossMask_BT);
  const denominators = globalDenominators(corrected.lossMask_BT, groupOf);
  let logprobs_BT = anchorLogprobs_BT;
  const epochs = Array.from({ length: numEpochs }, () => {
    const policyLogprobs_BT = logprobs_BT.detach();
    policyLogprobs_BT.requiresGrad = true;
    const step = isBypass
      ? bypassLoss(
          { policyLogprobs_BT, samplerLogprobs_BT, advantages_BT, lossMask_BT },
          { correction: resolved, loss },
        )
      : {
          output: decoupled(policyLogprobs_BT),
          lossMask_BT: corrected.lossMask_BT,
          correctionMetrics: corrected.metrics,
        };
    const reduced = reduceOutput(
      step.output,
      { lossMask_BT: step.lossMask_BT, groupOf },
      { type: "token-mean" },
      denominators,
    );
    const gradient_BT = gradients([reduced], [policyLogprobs_BT])[0]!;
    logprobs_BT = logprobs_BT.sub(gradient_BT);
    return { step, loss: reduced.item(), gradient: gradient_BT.toArray() };
  });
  function decoupled(policyLogprobs_BT: Tensor): LossOutput {
    const { weights_BT, lossMask_BT: mask_BT } = corrected;
    const inputs = { policyLogprobs_BT, anchorLogprobs_BT, advantages_BT, lossMask_BT: mask_BT };
    return ppoClipLoss({ ...inputs, ...(weights_BT && { weights_BT }) }, clip);
  }
  return epochs;
}

function expectHealthy(epochs: ReturnType<typeof run>): void {
  for (const { loss, gradient, step } of epochs) {
    expect(Number.isFinite(loss)).toBe(true);
    expect(gradient.every(Number.isFinite)).toBe(true);
    expect(gradient.some((value) => value !== 0)).toBe(true);
    expect(Object.values(readCorrectionMetrics(step.correctionMetrics)).every(Number.isFinite)).toBe(true);
  }
}

test("RLOO with self-normalized sequence weights, REINFORCE in bypass mode", () => {
  const epochs = run(
    [
      "rollout_is=sequence",
      "rollout_is_threshold=2.0",
      "rollout_is_batch_normalize=true",
      "rollout_rs=null",
      "rollout_rs_threshold=null",
      "bypass_mode=true",
      "loss_type=reinforce",
    ],
    rloo,
    1,
  );
  expectHealthy(epochs);
  expect(
    readCorrectionMetrics(epochs[0]!.step.correctionMetrics)["rollout_corr/rollout_is_batch_norm_factor"],
  ).toBeGreaterThan(0);
});

test("GRPO with token weights and two rejections, PPO-clip in bypass mode", () => {
  const overrides = [
    "rollout_is=token",
    "rollout_is_threshold=2.0",
    "rollout_is_batch_normalize=false",
    "rollout_rs=\\'token_k1,seq_max_k2\\'",
    "rollout_rs_threshold=\\'0.6_1.6,2.5\\'",
    "bypass_mode=true",
    "loss_type=ppo_clip",
  ];
  expectHealthy(run(overrides, grpo, 1));
  expect(() => run(overrides, grpo, 4)).toThrow(/meant for one epoch: got 4/);
});

test("GAE with sequence weights and token rejection, decoupled over four epochs", () => {
  const epochs = run(
    [
      "rollout_is=sequence",
      "rollout_is_threshold=2.0",
      "rollout_rs=token_k1",
      "rollout_rs_threshold=0.5_2.0",
      "bypass_mode=false",
    ],
    critic,
    4,
  );
  expectHealthy(epochs);
  expect(epochs).toHaveLength(4);
  expect(epochs[3]!.loss).toBeLessThan(epochs[0]!.loss);
});

test("rejection only", () => {
  const epochs = run(["rollout_is=null", "rollout_rs=token_k1", "rollout_rs_threshold=0.5_2.0"], grpo, 1);
  expectHealthy(epochs);
  expect(Object.keys(epochs[0]!.step.correctionMetrics).some((name) => name.includes("rollout_is_"))).toBe(false);
});
