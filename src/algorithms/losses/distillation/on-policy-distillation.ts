import type { Tensor } from "../../../torch/tensor.ts";
import { expectBatch, expectRange } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { liveTokens } from "../live-tokens.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { TokenLoss } from "../loss-output.ts";

interface OnPolicyDistillationInputs {
  readonly policyLogprobs_BT: Tensor;
  readonly teacherLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /** Importance weights, for when the sampler is not the policy. Default 1. */
  readonly weights_BT?: Tensor;
}

interface OnPolicyDistillationOptions {
  /** The log of teacher / policy is kept in [-gapClip, gapClip]. null: no bound. */
  readonly gapClip: number | null;
}

/**
 * -w (log teacher - log policy) log policy at the sampled tokens, with the first two factors held fixed.
 *
 * Its expected gradient over the policy's own samples is that of KL(policy || teacher) at every token, from one
 * log-prob of the teacher instead of its whole distribution. MiniLLM (arXiv:2306.08543) with the single-token term
 * only; the loss of Thinking Machines' on-policy distillation. Its value means nothing: watch
 * `distillation/reverse_kl`.
 */
export function onPolicyDistillationLoss(
  inputs: OnPolicyDistillationInputs,
  { gapClip }: OnPolicyDistillationOptions,
): TokenLoss {
  const { policyLogprobs_BT, teacherLogprobs_BT, lossMask_BT, weights_BT } = inputs;
  const fixed = { teacherLogprobs_BT, ...(weights_BT && { weights_BT }) };
  expectBatch(lossMask_BT, { policyLogprobs_BT, ...fixed });
  if (gapClip !== null) expectRange("gapClip", gapClip, 0);
  const live_BT = liveTokens(lossMask_BT, [policyLogprobs_BT, ...Object.values(fixed)]);
  const policy_BT = zeroOutside(policyLogprobs_BT, live_BT);
  const gap_BT = zeroOutside(teacherLogprobs_BT.detach(), live_BT).sub(policy_BT.detach());
  const used_BT = gapClip === null ? gap_BT : gap_BT.clamp(-gapClip, gapClip);
  const plain_BT = used_BT.neg().mul(policy_BT);
  return {
    level: "token",
    loss_BT: weights_BT ? plain_BT.mul(zeroOutside(weights_BT.detach(), live_BT)) : plain_BT,
    metrics: {
      "distillation/reverse_kl": meanOver(live_BT, gap_BT.neg()),
      "distillation/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), policy_BT),
    },
  };
}

/**
 * coefficient (log teacher - log policy) per token: the same signal as an advantage, to add to a reward's advantage or
 * to use with any policy loss. The policy is the one that the tokens were drawn from, or the anchor. 0 outside the mask and where a
 * log-prob is not finite.
 */
export function distillationAdvantages(
  { policyLogprobs_BT, teacherLogprobs_BT, lossMask_BT }: DistillationAdvantageInputs,
  coefficient: number,
): Tensor {
  expectBatch(lossMask_BT, { policyLogprobs_BT, teacherLogprobs_BT });
  const live_BT = liveTokens(lossMask_BT, [policyLogprobs_BT, teacherLogprobs_BT]);
  return zeroOutside(teacherLogprobs_BT.detach().sub(policyLogprobs_BT.detach()), live_BT).mul(coefficient);
}

interface DistillationAdvantageInputs {
  readonly policyLogprobs_BT: Tensor;
  readonly teacherLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
}
