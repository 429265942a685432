import { onesLike } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectMask, expectPositive, expectRange, expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { SequenceLoss } from "../loss-output.ts";

interface KtoInputs {
  /** Log-probabilities of whole replies, each labeled on its own, from `sequenceLogprobs`. */
  readonly policyLogprobs_B: Tensor;
  readonly referenceLogprobs_B: Tensor;
  /** True for a reply that is wanted. */
  readonly isDesirable_B: Tensor;
  /**
   * Mean of log(policy / reference) over replies put behind prompts that they do not answer, an estimate of KL(policy || reference):
   * one number for the whole batch, all ranks, measured without gradient. NaN where there is none.
   */
  readonly mismatchedGain: number;
}

interface KtoOptions {
  readonly beta: number;
  /** Weight of the wanted replies. Choose it and its counterpart so that both kinds weigh about the same. Default 1. */
  readonly desirableWeight?: number;
  readonly undesirableWeight?: number;
}

/**
 * The loss of one labeled reply, g = log(policy / reference) and z = max(0, mismatchedGain):
 *
 * | label | loss |
 * |---|---|
 * | desirable | desirableWeight (1 - sigmoid(beta (g - z))) |
 * | undesirable | undesirableWeight (1 - sigmoid(beta (z - g))) |
 *
 * KTO (arXiv:2402.01306), eq. 8, whose weights are lambda_D and lambda_U. The batch loss is the mean over replies. Those with NaN
 * or infinite log-probs have loss 0 and gradient 0.
 */
export function ktoLoss(
  { policyLogprobs_B, referenceLogprobs_B, isDesirable_B, mismatchedGain }: KtoInputs,
  { beta, desirableWeight = 1, undesirableWeight = 1 }: KtoOptions,
): SequenceLoss {
  expectPositive("beta", beta);
  expectRange("desirableWeight", desirableWeight, 0);
  expectRange("undesirableWeight", undesirableWeight, 0);
  expectMask({ isDesirable_B });
  expectRows({ policyLogprobs_B, referenceLogprobs_B });
  const baseline = mismatchedGain > 0 ? mismatchedGain : 0;
  const raw_B = policyLogprobs_B.sub(referenceLogprobs_B.detach());
  const live_B = raw_B.detach().isFinite();
  const gain_B = zeroOutside(raw_B, live_B);
  const sign_B = isDesirable_B.to(gain_B.dtype).mul(2).sub(1);
  const weight_B = sign_B.mul((desirableWeight - undesirableWeight) / 2).add((desirableWeight + undesirableWeight) / 2);
  const loss_B = gain_B.sub(baseline).mul(sign_B).mul(-beta).sigmoid().mul(weight_B);
  const rewards_B = gain_B.mul(beta);
  const wanted_B = live_B.logicalAnd(isDesirable_B);
  const unwanted_B = live_B.logicalAnd(isDesirable_B.logicalNot());
  return {
    level: "sequence",
    loss_B: zeroOutside(loss_B, live_B),
    metrics: {
      "preference/accuracy": shareOf(live_B, gain_B.sub(baseline).mul(sign_B).gt(0), gain_B),
      "preference/chosen_reward": meanOver(wanted_B, rewards_B),
      "preference/rejected_reward": meanOver(unwanted_B, rewards_B),
      "preference/nonfinite_fraction": shareOf(onesLike(live_B), live_B.logicalNot(), gain_B),
    },
  };
}
