/**
 * Finds the tokens that drive the entropy down: those where advantage and log-prob are high together.
 *
 * The choice depends on all the tokens it is made from. To keep a step independent of how it is cut into microbatches,
 * choose once for the whole batch (with the anchor's log-probs as `policyLogprobs_BT`) and pass slices of the choice as
 * `selected_BT`.
 */
import { arange } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { maskedMean } from "../../masked.ts";

/** (A - mean A)(log policy - mean log policy), means over the mask. Entropy Mechanism (arXiv:2505.22617). */
export function tokenCovariance(policyLogprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor): Tensor {
  const logprobs_BT = policyLogprobs_BT.detach();
  return advantages_BT.sub(maskedMean(advantages_BT, mask_BT)).mul(logprobs_BT.sub(maskedMean(logprobs_BT, mask_BT)));
}

/** The number of a mask's tokens that make up a share: rounded down, at least 1. An int64 tensor without dimensions. */
export function shareToCount(mask_BT: Tensor, share: number): Tensor {
  return mask_BT.sum().to("float64").mul(share).floor().clamp(1).to("int64");
}

/**
 * True at the `count` eligible positions with the largest scores; at all eligible ones where there are fewer. Equal
 * scores that do not all fit are left out together, since only the order of rows could choose among them.
 */
export function selectLargest(scores_BT: Tensor, eligible_BT: Tensor, count: Tensor): Tensor {
  const used_BT = scores_BT.where(eligible_BT, Number.NEGATIVE_INFINITY);
  const [sorted_S] = used_BT.flatten().sort(0, true);
  const places_S = arange(0, sorted_S.size(0), { device: sorted_S.device });
  const firstLeftOut = sorted_S.where(places_S.ge(count), Number.NEGATIVE_INFINITY).max();
  return used_BT.gt(firstLeftOut);
}
