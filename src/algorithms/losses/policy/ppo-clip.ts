import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import { type ClipOptions, clippedSurrogate } from "./clipped-surrogate.ts";
import {
  anchorKl,
  logRatio,
  type PolicyLossInputs,
  type PolicyTerms,
  policyTerms,
  tokenLoss,
  tokenShare,
} from "./policy-loss.ts";

export interface PpoClipOptions extends ClipOptions {
  /**
   * Where A < 0 the loss is at most -A dualClip, so that one token with a huge ratio cannot dominate a step. At least
   * 1; verl uses 3. null: no second bound.
   */
  readonly dualClip: number | null;
}

/**
 * -min(r A, clamp(r, 1 - clipLow, 1 + clipHigh) A), r = policy / anchor; where A < 0 at most -dualClip A.
 *
 * PPO (arXiv:1707.06347), eq. 7; dual clip: Ye et al. 2020 (arXiv:1912.09729); clip-higher: DAPO (arXiv:2503.14476).
 */
export function ppoClipLoss(inputs: PolicyLossInputs, options: PpoClipOptions): TokenLoss {
  return ppoClip(policyTerms(inputs), options);
}

/** The clipped surrogate for inputs that are already checked. */
export function ppoClip(terms: PolicyTerms, options: PpoClipOptions): TokenLoss {
  const logRatio_BT = logRatio(terms);
  const { loss_BT, isClipped_BT } = clippedSurrogate(logRatio_BT.exp(), terms.advantages_BT, options);
  const metrics = { "policy/clip_fraction": tokenShare(terms, isClipped_BT), ...anchorKl(terms, logRatio_BT) };
  if (options.dualClip === null) return tokenLoss(terms, loss_BT, metrics);
  const dual = dualClip(loss_BT, terms.advantages_BT, options.dualClip);
  return tokenLoss(terms, dual.loss_BT, {
    ...metrics,
    "policy/dual_clip_fraction": tokenShare(terms, dual.isClipped_BT),
  });
}

function dualClip(loss_BT: Tensor, advantages_BT: Tensor, bound: number) {
  expectRange("dualClip", bound, 1);
  const isNegative_BT = advantages_BT.lt(0);
  const largest_BT = advantages_BT.mul(-bound);
  return {
    loss_BT: largest_BT.minimum(loss_BT).where(isNegative_BT, loss_BT),
    isClipped_BT: loss_BT.gt(largest_BT).logicalAnd(isNegative_BT),
  };
}
