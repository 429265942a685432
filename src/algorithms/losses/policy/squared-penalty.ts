import { expectPositive } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import { anchorKl, type PolicyLossInputs, policyTerms, tokenLoss } from "./policy-loss.ts";

interface SquaredPenaltyOptions {
  /** The weight of the penalty. Above 0; ROLL's kimi15 and verl's dro use 0.1. */
  readonly beta: number;
}

/**
 * -A log policy + beta / 2 (policy - anchor)^2, over log-probs.
 *
 * No ratio and no clip: the square pulls the policy back to the anchor, so any sampler will do. Kimi k1.5
 * (arXiv:2501.12599); DRO (arXiv:2405.19107), with the advantage in place of reward minus value.
 */
export function squaredPenaltyLoss(inputs: PolicyLossInputs, { beta }: SquaredPenaltyOptions): TokenLoss {
  expectPositive("beta", beta);
  const terms = policyTerms(inputs);
  const logRatio_BT = terms.policyLogprobs_BT.sub(terms.anchorLogprobs_BT);
  const gain_BT = terms.policyLogprobs_BT.mul(terms.advantages_BT);
  const loss_BT = logRatio_BT
    .square()
    .mul(beta / 2)
    .sub(gain_BT);
  return tokenLoss(terms, loss_BT, anchorKl(terms, logRatio_BT));
}
