/**
 * Which tokens drive the entropy down: those where advantage and log-prob are high together.
 *
 * The choice depends on all tokens it is made over. To keep a step independent of its cut into microbatches, make it once
 * for the whole batch (with the anchor's log-probs as `policyLogprobs_BT`) and pass the slices as `selected_BT`.
 */
import { arange } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { maskedMean } from "../../masked.ts";

/** (A - mean A)(log policy - mean log policy), means over the mask. Entropy Mechanism (arXiv:2505.22617). */
export function tokenCovariance(policyLogprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor): Tensor {
  const logprobs_BT = policyLogprobs_BT.detach();
  return advantages_BT.sub(maskedMean(advantages_BT, mask_BT)).mul(logprobs_BT.sub(maskedMean(logprobs_BT, mask_BT)));
}

/** How many of the tokens of a mask a share means: rounded down, at least 1. An int64 tensor without dimensions. */
export function shareToCount(mask_BT: Tensor, share: number): Tensor {
  return mask_BT.sum().to("float64").mul(share).floor().clamp(1).to("int64");
}

/** True at the `count` eligible positions with the largest scores; at all eligible ones where there are fewer. */
export function selectLargest(scores_BT: Tensor, eligible_BT: Tensor, count: Tensor): Tensor {
  const scores_S = scores_BT.where(eligible_BT, Number.NEGATIVE_INFINITY).flatten();
  const [, order_S] = scores_S.sort(0, true);
  const places_S = arange(0, order_S.size(0), { device: order_S.device });
  const ranks_S = order_S.scatter(0, order_S, places_S);
  return ranks_S
    .lt(count)
    .view(...scores_BT.shape)
    .logicalAnd(eligible_BT);
}
