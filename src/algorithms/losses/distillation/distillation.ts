import type { Tensor } from "../../../torch/tensor.ts";
import { expectAlike, expectMask, expectPositive } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { expectTokens } from "../expect-tokens.ts";
import { liveTokens } from "../live-tokens.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { TokenLoss } from "../loss-output.ts";

interface DistillationInputs {
  /** Scores of all tokens before the softmax, or log-probs, which are scores too. The one input with a gradient. */
  readonly policyLogits_BTV: Tensor;
  readonly teacherLogits_BTV: Tensor;
  readonly lossMask_BT: Tensor;
}

export interface DistillationOptions {
  /**
   * forward: KL(teacher || policy), which covers everything the teacher would say. reverse: KL(policy || teacher),
   * which keeps to what the teacher finds likely; on the policy's own samples this is on-policy distillation.
   */
  readonly direction: KlDirection;
  /**
   * Both scores are divided by this, and the loss is multiplied by its square, which keeps the size of the gradient.
   * Default 1.
   */
  readonly temperature?: number;
}

export type KlDirection = "forward" | "reverse";

/** Lower scores, including minus infinity, count as this: a probability of 0 in every float type, with a finite log. */
const LOWEST_SCORE = -1e4;

/**
 * KL(teacher || policy) or KL(policy || teacher) of the whole next-token distribution, per token.
 *
 * The gradient with respect to the scores of the policy is p - t (forward) and p (log(p / t) - KL) (reverse), at
 * temperature 1. Hinton et al. 2015 (arXiv:1503.02531); reverse: MiniLLM (arXiv:2306.08543), GKD (arXiv:2306.13649).
 */
export function distillationLoss(inputs: DistillationInputs, options: DistillationOptions): TokenLoss {
  const { policyLogits_BTV, teacherLogits_BTV, lossMask_BT } = inputs;
  const { direction, temperature = 1 } = options;
  expectPositive("temperature", temperature);
  expectMask({ lossMask_BT });
  expectAlike({ policyLogits_BTV, teacherLogits_BTV });
  expectTokens({ policyLogits_BTV }, lossMask_BT);
  const policyScores_BTV = policyLogits_BTV.clamp(LOWEST_SCORE);
  const teacherScores_BTV = teacherLogits_BTV.detach().clamp(LOWEST_SCORE);
  const live_BT = liveTokens(lossMask_BT, [policyScores_BTV, teacherScores_BTV]);
  const live_BT1 = live_BT.unsqueeze(2);
  const policyLogprobs_BTV = zeroOutside(policyScores_BTV, live_BT1).div(temperature).logSoftmax(2);
  const teacherLogprobs_BTV = zeroOutside(teacherScores_BTV, live_BT1).div(temperature).logSoftmax(2);
  const kl_BT = klOver(policyLogprobs_BTV, teacherLogprobs_BTV, direction).sum(2);
  return {
    level: "token",
    loss_BT: kl_BT.mul(temperature ** 2),
    metrics: {
      [`distillation/${direction}_kl`]: meanOver(live_BT, kl_BT),
      "distillation/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), kl_BT),
    },
  };
}

/**
 * The terms of KL(teacher || policy) or KL(policy || teacher), which add up to the divergence over the last dimension.
 */
export function klOver(policyLogprobs: Tensor, teacherLogprobs: Tensor, direction: KlDirection): Tensor {
  const difference = policyLogprobs.sub(teacherLogprobs);
  return direction === "forward" ? teacherLogprobs.exp().mul(difference.neg()) : policyLogprobs.exp().mul(difference);
}
