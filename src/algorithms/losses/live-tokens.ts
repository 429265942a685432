/**
 * The loss tokens whose numbers can be used.
 *
 * A NaN or an infinity in one token would make the gradient of every weight NaN. Checking for one costs a wait for the
 * device per microbatch, so losses leave such tokens out instead: they have loss 0 and gradient 0, they still count in
 * the denominator, and their share is the metric `nonfinite_fraction`. `expectFinite` is the check that throws.
 */
import type { Tensor } from "../../torch/tensor.ts";

/** Positions of the mask at which all values are finite. Values are [B, T], or [B, T, x] with all of x finite. */
export function liveTokens(lossMask_BT: Tensor, values: readonly Tensor[]): Tensor {
  // A sum with NaN or an infinity in it is never finite.
  const total_BT = values.map(perToken).reduce((sum_BT, values_BT) => sum_BT.add(values_BT));
  return lossMask_BT.logicalAnd(total_BT.isFinite());
}

// The two extremes and not the sum over x, which for a vocabulary exceeds the largest float16.
function perToken(values: Tensor): Tensor {
  const fixed = values.detach();
  return fixed.shape.length === 3 ? fixed.amax(2).add(fixed.amin(2)) : fixed;
}
