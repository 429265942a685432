import type { TokenLoss } from "../loss-output.ts";
import { type ClipOptions, clippedSurrogate } from "./clipped-surrogate.ts";
import { anchorKl, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";

/** The log of the sequence ratio is a mean over tokens: 10 is far outside any trust region. */
const LOG_SEQUENCE_RATIO_CAP = 10;

/**
 * -min(s A, clamp(s, 1 - clipLow, 1 + clipHigh) A) at every token, s = exp(mean_t (policy - anchor)) of the sequence.
 *
 * The gradient of s at a token is s times that of its own log-prob (GSPO-token), so advantages may differ between tokens;
 * where they do not, this is GSPO. Group Sequence Policy Optimization (arXiv:2507.18071). The paper
 * clips at 3e-4 and 4e-4 and reduces with seq-mean-token-mean.
 */
export function gspoLoss(inputs: PolicyLossInputs, options: ClipOptions): TokenLoss {
  const terms = policyTerms(inputs);
  const { policyLogprobs_BT, anchorLogprobs_BT, advantages_BT, live_BT } = terms;
  const logRatio_BT = policyLogprobs_BT.detach().sub(anchorLogprobs_BT);
  const lengths_B = live_BT.sum(1).clamp(1).to(logRatio_BT.dtype);
  const logSequenceRatio_B = logRatio_BT.sum(1).div(lengths_B);
  const ratio_BT = policyLogprobs_BT
    .sub(policyLogprobs_BT.detach())
    .add(logSequenceRatio_B.unsqueeze(1))
    .clamp(null, LOG_SEQUENCE_RATIO_CAP)
    .exp();
  const { loss_BT, isClipped_BT } = clippedSurrogate(ratio_BT, advantages_BT, options);
  return tokenLoss(terms, loss_BT, {
    "policy/clip_fraction": tokenShare(terms, isClipped_BT),
    ...anchorKl(terms, logRatio_BT),
  });
}
