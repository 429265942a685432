/**
 * Sums, means and extremes over the positions where a mask holds.
 *
 * In: values of any float type and a bool mask of a shape that broadcasts to theirs. Out: a tensor over `dim`, or over
 * everything. Values outside the mask are never read: NaN and infinities there change nothing and get no gradient. An
 * empty mask gives 0.
 */
import type { Tensor } from "../torch/tensor.ts";

/**
 * Added to every count before dividing, as verl does: it makes the mean over nothing 0. In float32 it changes no mean
 * over at least one position; in float64 it takes 1e-8 / count of it.
 */
export const COUNT_EPSILON = 1e-8;

/** The values where the mask is true, 0 elsewhere. */
export function zeroOutside(values: Tensor, mask: Tensor): Tensor {
  return values.where(mask, 0);
}

/** The number of positions where the mask is true, in the float type of `like`. */
export function maskedCount(mask: Tensor, like: Tensor, dim?: number): Tensor {
  return mask.sum(dim).to(like.dtype);
}

/** sum_i m_i x_i */
export function maskedSum(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return zeroOutside(values, mask).sum(dim);
}

/** sum_i m_i x_i / (sum_i m_i + 1e-8), 0 over an empty mask. */
export function maskedMean(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return maskedSum(values, mask, dim).div(maskedCount(mask, values, dim).add(COUNT_EPSILON));
}

/**
 * The mean of (x - mean)^2 over the mask, times n / (n - 1) for `correction` 1 (the default, unbiased). Over fewer than
 * two positions it is 0.
 */
export function maskedVariance(values: Tensor, mask: Tensor, { correction = 1 }: { correction?: 0 | 1 } = {}): Tensor {
  // Blank out before squaring: the gradient of the square reads the values again.
  const centered = zeroOutside(values.sub(maskedMean(values, mask)), mask);
  const variance = maskedMean(centered.square(), mask);
  const count = maskedCount(mask, values);
  const bessel = count.div(count.sub(correction).clamp(1));
  return variance.mul(bessel).maskedFill(count.le(1), 0);
}

/** The largest value where the mask is true; 0 if it is true nowhere. */
export function maskedMax(values: Tensor, mask: Tensor, dim?: number): Tensor {
  const filled = values.where(mask, Number.NEGATIVE_INFINITY);
  const largest = dim === undefined ? filled.max() : filled.amax(dim);
  return largest.maskedFill(mask.sum(dim).eq(0), 0);
}

/** The smallest value where the mask is true; 0 if it is true nowhere. */
export function maskedMin(values: Tensor, mask: Tensor, dim?: number): Tensor {
  return maskedMax(values.neg(), mask, dim).neg();
}
