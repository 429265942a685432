/** Scales values to mean 0 and variance 1 over the positions where a mask is true. */
import type { Tensor } from "../torch/tensor.ts";
import { expectBatch } from "./expect-batch.ts";
import { maskedMean, maskedVariance, zeroOutside } from "./masked.ts";

/** How values are whitened. */
interface WhitenOptions {
  /** Whether to subtract the mean. If false, values are scaled and keep it: (x - mean) / std + mean. Default true. */
  readonly shiftMean?: boolean;
}

/**
 * (x - mean) / sqrt(variance + 1e-8) where the mask is true, 0 elsewhere; mean and unbiased variance are taken over the
 * whole batch under the mask. Fewer than two positions have no spread, and give 0 (or the mean, if that is kept).
 *
 * Source: the advantage normalization of PPO implementations, with verl's small terms.
 */
export function whiten(values_BT: Tensor, lossMask_BT: Tensor, { shiftMean = true }: WhitenOptions = {}): Tensor {
  expectBatch(lossMask_BT, { values_BT });
  const mean = maskedMean(values_BT, lossMask_BT);
  const centered_BT = zeroOutside(values_BT.sub(mean), lossMask_BT);
  const scale = maskedVariance(values_BT, lossMask_BT).add(VARIANCE_EPSILON).rsqrt();
  const hasSpread = lossMask_BT.sum().gt(1);
  const scaled_BT = zeroOutside(centered_BT.mul(scale), hasSpread);
  return shiftMean ? scaled_BT : zeroOutside(scaled_BT.add(mean), lossMask_BT);
}

const VARIANCE_EPSILON = 1e-8;
