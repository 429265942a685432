import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";
import { expectPerToken } from "../expect-tokens.ts";
import { meanOver } from "../loss-metrics.ts";
import type { TokenLoss } from "../loss-output.ts";
import { logRatio, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";
import { selectLargest, shareToCount, tokenCovariance } from "./token-covariance.ts";

interface KlCovInputs extends PolicyLossInputs {
  /** Tokens to penalize, chosen earlier by `klCovSelection`. Default: chosen among the tokens of this call. */
  readonly selected_BT?: Tensor;
}

interface KlCovOptions {
  /** The share of loss tokens to penalize, which is at least one token. verl uses 2e-4. */
  readonly share: number;
  /** The weight of the penalty. verl uses 1. */
  readonly penalty: number;
}

/**
 * -r A, plus penalty |policy - anchor| at the tokens with the largest covariance of advantage and log-prob.
 *
 * KL-Cov, Entropy Mechanism (arXiv:2505.22617).
 */
export function klCovLoss(inputs: KlCovInputs, options: KlCovOptions): TokenLoss {
  expectRange("penalty", options.penalty, 0);
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const selected_BT = inputs.selected_BT ?? klCovSelection(inputs, options);
  expectPerToken("selected_BT", selected_BT, "bool", terms.lossMask_BT);
  const distance_BT = logRatio_BT.abs();
  const plain_BT = terms.advantages_BT.neg().mul(logRatio_BT.exp());
  const loss_BT = plain_BT.add(distance_BT.mul(options.penalty).where(selected_BT, 0));
  return tokenLoss(terms, loss_BT, {
    "policy/penalized_fraction": tokenShare(terms, selected_BT),
    "policy/anchor_kl_abs": meanOver(terms.lossMask_BT, distance_BT),
  });
}

/** The tokens that KL-Cov penalizes. */
export function klCovSelection(inputs: PolicyLossInputs, { share }: KlCovOptions): Tensor {
  expectRange("share", share, Number.MIN_VALUE, 1);
  const terms = policyTerms(inputs);
  const covariance_BT = tokenCovariance(terms.policyLogprobs_BT, terms.advantages_BT, terms.live_BT);
  return selectLargest(covariance_BT, terms.live_BT, shareToCount(terms.lossMask_BT, share));
}
