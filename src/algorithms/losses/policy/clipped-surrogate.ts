/** The clipped surrogate of PPO, for whatever ratio a loss uses. */
import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";

export interface ClipOptions {
  /** Ratios below 1 - clipLow are clipped. In [0, 1]; PPO uses 0.2. */
  readonly clipLow: number;
  /** Ratios above 1 + clipHigh are clipped. Larger than clipLow for clip-higher: DAPO uses 0.28. */
  readonly clipHigh: number;
}

interface ClippedSurrogate {
  /** max(-A r, -A clamp(r, 1 - clipLow, 1 + clipHigh)) */
  readonly loss_BT: Tensor;
  /** True where the clipped term is the larger one, so that the gradient is 0. */
  readonly isClipped_BT: Tensor;
}

/** -min(r A, clamp(r, 1 - clipLow, 1 + clipHigh) A). PPO (arXiv:1707.06347), eq. 7; two ranges: DAPO (arXiv:2503.14476). */
export function clippedSurrogate(ratio_BT: Tensor, advantages_BT: Tensor, options: ClipOptions): ClippedSurrogate {
  const { clipLow, clipHigh } = options;
  expectRange("clipLow", clipLow, 0, 1);
  expectRange("clipHigh", clipHigh, 0);
  const gain_BT = advantages_BT.neg();
  const plain_BT = gain_BT.mul(ratio_BT);
  const clipped_BT = gain_BT.mul(ratio_BT.clamp(1 - clipLow, 1 + clipHigh));
  return { loss_BT: plain_BT.maximum(clipped_BT), isClipped_BT: clipped_BT.gt(plain_BT) };
}
