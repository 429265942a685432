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

/**
 * True at the `count` eligible positions with the largest scores; at all eligible ones where there are fewer. Scores that are equal
 * and do not all fit are left out together, since nothing but the order of rows would choose among them.
 */
export function selectLargest(scores_BT: Tensor, eligible_BT: Tensor, count: Tensor): Tensor {
  const used_BT = scores_BT.where(eligible_BT, Number.NEGATIVE_INFINITY);
  const [sorted_S] = used_BT.flatten().sort(0, true);
  const places_S = arange(0, sorted_S.size(0), { device: sorted_S.device });
  const firstLeftOut = sorted_S.where(places_S.ge(count), Number.NEGATIVE_INFINITY).max();
  return used_BT.gt(firstLeftOut);
}
