import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive, expectRange } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import {
  anchorKl,
  logRatio,
  type PolicyLossInputs,
  type PolicyTerms,
  policyTerms,
  tokenLoss,
  tokenShare,
} from "./policy-loss.ts";

interface DppoOptions {
  /** Total variation |p - q|, or the KL of the two-outcome distribution "this token or another one". */
  readonly divergence: "tv" | "kl";
  /** How far the policy may lie below the anchor before tokens with A <= 0 are dropped. */
  readonly divergenceLow: number;
  /** How far the policy may lie above the anchor before tokens with A > 0 are dropped. */
  readonly divergenceHigh: number;
  /** The largest ratio used. The paper advises a large one: 20. */
  readonly ratioHigh: number;
}

/** Keeps the logarithm of 1 - p finite where p is 1. */
const PROBABILITY_EPSILON = 1e-8;

/**
 * -min(r, ratioHigh) A log policy for the tokens inside a trust region, 0 for the others; r = policy / anchor and the
 * choice of tokens are held fixed.
 *
 * The region bounds a divergence between probabilities p and q instead of their ratio, so rare tokens may change by a
 * large factor and frequent ones may not. A token leaves it only by moving further in the direction of its advantage: p
 * - q above divergenceHigh (A > 0) or below -divergenceLow (A <= 0) for `tv`; for `kl`, q log(q / p) + (1 - q) log((1 -
 * q) / (1 - p)) above the bound. DPPO (arXiv:2602.04879).
 */
export function dppoLoss(inputs: PolicyLossInputs, options: DppoOptions): TokenLoss {
  expectRange("divergenceLow", options.divergenceLow, 0);
  expectRange("divergenceHigh", options.divergenceHigh, 0);
  expectPositive("ratioHigh", options.ratioHigh);
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const ratio_BT = logRatio_BT.detach().exp();
  const isInside_BT = insideRegion(terms, options);
  const loss_BT = ratio_BT
    .clamp(null, options.ratioHigh)
    .mul(terms.advantages_BT)
    .mul(terms.policyLogprobs_BT)
    .neg()
    .where(isInside_BT, 0);
  return tokenLoss(terms, loss_BT, {
    "policy/clip_fraction": tokenShare(terms, isInside_BT.logicalNot()),
    "policy/ratio_cap_fraction": tokenShare(terms, ratio_BT.gt(options.ratioHigh).logicalAnd(isInside_BT)),
    ...anchorKl(terms, logRatio_BT),
  });
}

function insideRegion(terms: PolicyTerms, { divergence, divergenceLow, divergenceHigh }: DppoOptions): Tensor {
  const policyLogprobs_BT = terms.policyLogprobs_BT.detach();
  const p_BT = policyLogprobs_BT.exp();
  const q_BT = terms.anchorLogprobs_BT.exp();
  const isPushedUp_BT = terms.advantages_BT.gt(0);
  if (divergence === "tv") {
    const rise_BT = p_BT.sub(q_BT);
    return rise_BT.le(divergenceHigh).where(isPushedUp_BT, rise_BT.ge(-divergenceLow));
  }
  const kl_BT = binaryKl(p_BT, q_BT, terms.anchorLogprobs_BT.sub(policyLogprobs_BT));
  const whenUp_BT = kl_BT.le(divergenceHigh).logicalOr(p_BT.le(q_BT));
  const whenDown_BT = kl_BT.le(divergenceLow).logicalOr(p_BT.ge(q_BT));
  return whenUp_BT.where(isPushedUp_BT, whenDown_BT);
}

function binaryKl(p_BT: Tensor, q_BT: Tensor, logQOverP_BT: Tensor): Tensor {
  const otherP_BT = p_BT.neg().add(1);
  const otherQ_BT = q_BT.neg().add(1);
  const logOthers_BT = otherQ_BT.add(PROBABILITY_EPSILON).div(otherP_BT.add(PROBABILITY_EPSILON)).log();
  return q_BT.mul(logQOverP_BT).add(otherQ_BT.mul(logOthers_BT));
}
