import { arange, zeros } from "../../../torch/create.ts";
import { op } from "../../../torch/operator.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectPerToken } from "../expect-tokens.ts";
import type { TokenLoss } from "../loss-output.ts";
import { type ClipOptions, clippedSurrogate } from "./clipped-surrogate.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";

interface SegmentClipInputs extends PolicyLossInputs {
  /**
   * The segment of every token, int64 in [0, T]; equal numbers in a row make one segment. Default: the runs of the loss
   * mask, which are the turns of an episode as long as no token inside a turn is masked.
   */
  readonly segments_BT?: Tensor;
}

/**
 * -min(s A, clamp(s, 1 - clipLow, 1 + clipHigh) A), s = exp(mean of policy - anchor over the segment of the token).
 *
 * A middle way between PPO's token ratio and GSPO's sequence ratio: one ratio per turn of an agent. ROLL, `ratio_type:
 * segment`. The gradient flows through the mean.
 */
export function segmentClipLoss(inputs: SegmentClipInputs, options: ClipOptions): TokenLoss {
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const segments_BT = inputs.segments_BT ?? runsOf(terms.lossMask_BT);
  expectPerToken("segments_BT", segments_BT, "int64", terms.lossMask_BT);
  const ratio_BT = segmentMean(logRatio_BT, terms.live_BT, segments_BT).exp();
  const { loss_BT, isClipped_BT } = clippedSurrogate(ratio_BT, terms.advantages_BT, options);
  return tokenLoss(terms, loss_BT, {
    "policy/clip_fraction": tokenShare(terms, isClipped_BT),
    ...anchorKl(terms, logRatio_BT),
  });
}

/** Numbers the runs of true in every row from 1; 0 before the first one. */
export function runsOf(mask_BT: Tensor): Tensor {
  const inside_BT = mask_BT.to("int64");
  const before_BT = ops.pad(inside_BT, [1, 0]).narrow(1, 0, mask_BT.size(1));
  return inside_BT.sub(before_BT).gt(0).to("int64").cumsum(1);
}

/** At every token, the mean over the live values of its segment. */
function segmentMean(values_BT: Tensor, live_BT: Tensor, segments_BT: Tensor): Tensor {
  const [B, T] = values_BT.shape as [number, number];
  const { dtype, device } = values_BT;
  const firstOfRow_B1 = arange(0, B, { device })
    .mul(T + 1)
    .unsqueeze(1);
  const segments_S = segments_BT.add(firstOfRow_B1).flatten();
  const empty = zeros([B * (T + 1)], { dtype, device });
  const sums = empty.indexAdd(0, segments_S, values_BT.flatten());
  const counts = empty.indexAdd(0, segments_S, live_BT.to(dtype).flatten()).clamp(1);
  return sums.div(counts).indexSelect(0, segments_S).view(B, T);
}

const ops = { pad: op("aten::constant_pad_nd") } as const;
