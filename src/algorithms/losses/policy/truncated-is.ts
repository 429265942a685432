import { expectRange } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";

interface TruncatedIsOptions {
  /** The smallest ratio used. 0 for truncation from above only. */
  readonly ratioLow: number;
  /** The largest ratio used. IMPALA and ROLL use 1. */
  readonly ratioHigh: number;
}

/**
 * -clamp(r, ratioLow, ratioHigh) A log policy, with the ratio r = policy / anchor held fixed.
 *
 * Every token keeps a gradient; only its weight is bounded. IMPALA (arXiv:1802.01561).
 */
export function truncatedIsLoss(inputs: PolicyLossInputs, { ratioLow, ratioHigh }: TruncatedIsOptions): TokenLoss {
  expectRange("ratioLow", ratioLow, 0, ratioHigh);
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const ratio_BT = logRatio_BT.detach().exp();
  const used_BT = ratio_BT.clamp(ratioLow, ratioHigh);
  const loss_BT = used_BT.mul(terms.advantages_BT).mul(terms.policyLogprobs_BT).neg();
  return tokenLoss(terms, loss_BT, {
    "policy/clip_fraction": tokenShare(terms, ratio_BT.ne(used_BT)),
    ...anchorKl(terms, logRatio_BT),
  });
}
