import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import type { ClipOptions } from "./clipped-surrogate.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";

interface CispoOptions extends ClipOptions {
  /**
   * Also drop the tokens that PPO would not train on: A > 0 with a ratio above the range, A < 0 with one below it. ROLL's
   * unified mask; MiniMax trains without it.
   */
  readonly dropsPpoClipped: boolean;
}

/**
 * -clamp(r, 1 - clipLow, 1 + clipHigh) A log policy, with the clipped ratio held fixed, r = policy / anchor.
 *
 * Clips the weight instead of the update, so rare tokens keep their gradient. MiniMax-M1 (arXiv:2506.13585).
 */
export function cispoLoss(inputs: PolicyLossInputs, { clipLow, clipHigh, dropsPpoClipped }: CispoOptions): TokenLoss {
  expectRange("clipLow", clipLow, 0, 1);
  expectRange("clipHigh", clipHigh, 0);
  const terms = policyTerms(inputs);
  const { advantages_BT, policyLogprobs_BT } = terms;
  const logRatio_BT = logRatio(terms);
  const ratio_BT = logRatio_BT.detach().exp();
  const used_BT = ratio_BT.clamp(1 - clipLow, 1 + clipHigh);
  const all_BT = used_BT.neg().mul(advantages_BT).mul(policyLogprobs_BT);
  const loss_BT = dropsPpoClipped ? all_BT.maskedFill(ppoClips(ratio_BT, used_BT, advantages_BT), 0) : all_BT;
  return tokenLoss(terms, loss_BT, {
    "policy/clip_fraction": tokenShare(terms, ratio_BT.ne(used_BT)),
    ...anchorKl(terms, logRatio_BT),
  });
}

function ppoClips(ratio_BT: Tensor, used_BT: Tensor, advantages_BT: Tensor): Tensor {
  const pushedUp_BT = advantages_BT.gt(0).logicalAnd(ratio_BT.gt(used_BT));
  return advantages_BT.lt(0).logicalAnd(ratio_BT.lt(used_BT)).logicalOr(pushedUp_BT);
}
