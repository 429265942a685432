import type { TokenLoss } from "../loss-output.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss } from "./policy-loss.ts";

interface ReinforceOptions {
  /**
   * Which importance weight multiplies the gradient, on top of `weights_BT`: none, or the plain ratio policy / anchor, held
   * fixed. With a ratio, and the sampler as anchor, the gradient is unbiased and its variance unbounded.
   */
  readonly importance: "none" | "ratio";
}

/**
 * -w A log policy, w held fixed.
 *
 * Williams 1992 (REINFORCE). Without weights this is also the loss of GPG (arXiv:2504.02546).
 */
export function reinforceLoss(inputs: PolicyLossInputs, { importance }: ReinforceOptions): TokenLoss {
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const plain_BT = terms.advantages_BT.neg().mul(terms.policyLogprobs_BT);
  const loss_BT = importance === "ratio" ? plain_BT.mul(logRatio_BT.detach().exp()) : plain_BT;
  return tokenLoss(terms, loss_BT, anchorKl(terms, logRatio_BT));
}
