/** Conversions between one value per row and one per token. */
import { arange } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch } from "../expect-batch.ts";
import { zeroOutside } from "../masked.ts";

/** The value of each row at all of its loss tokens, 0 elsewhere. */
export function toTokens(values_B: Tensor, lossMask_BT: Tensor): Tensor {
  expectBatch(lossMask_BT, {}, { values_B });
  return zeroOutside(expandRows(values_B, lossMask_BT), lossMask_BT);
}

/**
 * The value of each row at its last loss token, where an outcome reward belongs, and 0 elsewhere. A row without a loss
 * token stays 0.
 */
export function toLastToken(values_B: Tensor, lossMask_BT: Tensor): Tensor {
  expectBatch(lossMask_BT, {}, { values_B });
  const T = lossMask_BT.size(1);
  const positions_T = arange(1, T + 1, { device: lossMask_BT.device });
  const last_B = lossMask_BT.mul(positions_T).amax(1, true);
  return zeroOutside(expandRows(values_B, lossMask_BT), positions_T.eq(last_B));
}

/** The sum of a row's token rewards, including those outside the loss mask, where an environment may have put some. */
export function sumRewards(rewards_BT: Tensor): Tensor {
  return rewards_BT.sum(1);
}

function expandRows(values_B: Tensor, lossMask_BT: Tensor): Tensor {
  return values_B.unsqueeze(1).expand(...lossMask_BT.shape);
}
