/**
 * What all policy losses share: their inputs, checks on them, and the log-ratio.
 *
 * A policy loss takes [B, T] tensors over response tokens and returns a loss per token (or per sequence) with metrics.
 * `reduceOutput` turns it into the loss of a batch. Tokens with NaN or infinite inputs are left out: see live-tokens.ts.
 */

import type { LossMetrics, MetricSum } from "../../../flow/batch-statistics.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectBatch } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { liveTokens } from "../live-tokens.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { LossOutput, TokenLoss } from "../loss-output.ts";

export interface PolicyLossInputs {
  /** Log-probs of the weights being trained; the only input that gets a gradient. */
  readonly policyLogprobs_BT: Tensor;
  /** Log-probs of the weights that the ratio is taken against. */
  readonly anchorLogprobs_BT: Tensor;
  readonly advantages_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /** Importance weights of a correction. They multiply the loss, after any clipping. Default 1. */
  readonly weights_BT?: Tensor;
}

/** The type of all policy losses. Some need more inputs than the common ones. */
export type PolicyLoss<Options, Inputs extends PolicyLossInputs = PolicyLossInputs> = (
  inputs: Inputs,
  options: Options,
) => LossOutput;

/** Checked inputs, with 0 wherever a token does not take part. */
export interface PolicyTerms {
  readonly policyLogprobs_BT: Tensor;
  readonly anchorLogprobs_BT: Tensor;
  readonly advantages_BT: Tensor;
  readonly weights_BT: Tensor | null;
  readonly lossMask_BT: Tensor;
  /** Loss tokens with finite inputs. */
  readonly live_BT: Tensor;
}

/** Checks the inputs and blanks out what must not be read. `others_BT` are further inputs that must be finite. */
export function policyTerms(inputs: PolicyLossInputs, others_BT: Readonly<Record<string, Tensor>> = {}): PolicyTerms {
  const { policyLogprobs_BT, anchorLogprobs_BT, advantages_BT, lossMask_BT, weights_BT } = inputs;
  const fixed = { anchorLogprobs_BT, advantages_BT, ...(weights_BT && { weights_BT }), ...others_BT };
  expectBatch(lossMask_BT, { policyLogprobs_BT, ...fixed });
  const live_BT = liveTokens(lossMask_BT, [policyLogprobs_BT, ...Object.values(fixed)]);
  return {
    policyLogprobs_BT: zeroOutside(policyLogprobs_BT, live_BT),
    anchorLogprobs_BT: zeroOutside(anchorLogprobs_BT.detach(), live_BT),
    advantages_BT: zeroOutside(advantages_BT.detach(), live_BT),
    weights_BT: weights_BT ? zeroOutside(weights_BT.detach(), live_BT) : null,
    lossMask_BT,
    live_BT,
  };
}

/** exp(20) is about 5e8: large enough to show, small enough to multiply in float32. */
export const LOG_RATIO_BOUND = 20;

/** log r = policy - anchor, kept in [-20, 20]; past that it has no gradient. */
export function logRatio(terms: PolicyTerms): Tensor {
  return terms.policyLogprobs_BT.sub(terms.anchorLogprobs_BT).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND);
}

/** A loss per token, times the importance weights. */
export function tokenLoss(terms: PolicyTerms, loss_BT: Tensor, metrics: LossMetrics): TokenLoss {
  const weighted_BT = terms.weights_BT === null ? loss_BT : loss_BT.mul(terms.weights_BT);
  return { level: "token", loss_BT: weighted_BT, metrics: { ...metrics, ...nonfiniteMetric(terms) } };
}

/** `policy/anchor_kl`: the mean of anchor - policy, the k1 estimate of KL(anchor || policy) on the anchor's samples. */
export function anchorKl(terms: PolicyTerms, logRatio_BT: Tensor): LossMetrics {
  return { "policy/anchor_kl": meanOver(terms.lossMask_BT, logRatio_BT.neg()) };
}

/** The share of loss tokens at which a condition holds. */
export function tokenShare(terms: PolicyTerms, condition_BT: Tensor): MetricSum {
  return shareOf(terms.lossMask_BT, condition_BT, terms.policyLogprobs_BT);
}

/** `policy/nonfinite_fraction`: loss tokens left out because an input was NaN or infinite. */
export function nonfiniteMetric(terms: PolicyTerms): LossMetrics {
  return { "policy/nonfinite_fraction": tokenShare(terms, terms.live_BT.logicalNot()) };
}
