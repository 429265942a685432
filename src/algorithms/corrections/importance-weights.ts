/** Importance weights w = policy / sampler, bounded, and the metrics that show what the bounds did. */

import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import { onesLike } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { maskedMax, maskedMean, maskedMin, maskedSum, zeroOutside } from "../masked.ts";
import { maskedDeviation, rowShare, rowSummary } from "./correction-metrics.ts";
import type { ImportanceBounds } from "./correction-options.ts";

/** exp(20) is about 5e8. Logs of weights are kept in [-20, 20] before they are exponentiated, sums after summing. */
export const LOG_WEIGHT_BOUND = 20;

/** Smallest mean weight that is divided by. */
const SMALLEST_MEAN = 1e-8;

interface BoundedWeights {
  /** 0 outside the mask. */
  readonly weights_BT: Tensor;
  readonly metrics: CorrectionMetrics;
}

/**
 * exp(log w) per token, or exp(sum_t log w) per sequence, bounded, and divided by its mean if self-normalized.
 *
 * Truncated importance sampling: Ionides 2008; for rollouts: Yao et al. 2025 (fengyao.notion.site/off-policy-rl).
 * IcePop sets weights to zero instead: Ling team 2025. `mean` is the mean weight of the whole batch if these rows are
 * only part of it.
 */
export function importanceWeights(
  logRatio_BT: Tensor,
  mask_BT: Tensor,
  bounds: ImportanceBounds,
  mean?: Tensor,
): BoundedWeights {
  const logSum_B1 = maskedSum(logRatio_BT, mask_BT, 1).unsqueeze(1);
  const raw_BT = zeroOutside(expBounded(bounds.level === "token" ? logRatio_BT : logSum_B1), mask_BT);
  const weights_BT = zeroOutside(boundWeights(raw_BT, bounds), mask_BT);
  const metrics = weightMetrics({ weights_BT, raw_BT, logSum_B: logSum_B1.squeeze(1), mask_BT }, bounds);
  if (!bounds.isSelfNormalized) return { weights_BT, metrics };
  const known = mean ?? meanWeight(weights_BT, mask_BT, bounds.level);
  const factor = known.where(known.gt(SMALLEST_MEAN), 1);
  return { weights_BT: weights_BT.div(factor), metrics: { ...metrics, rollout_is_batch_norm_factor: factor } };
}

/** The divisor of self-normalization: the mean over tokens, or over the sequences that have any. */
function meanWeight(weights_BT: Tensor, mask_BT: Tensor, level: "token" | "sequence"): Tensor {
  if (level === "token") return maskedMean(weights_BT, mask_BT);
  return rowSummary(maskedMean(weights_BT, mask_BT, 1), mask_BT.sum(1).gt(0)).mean;
}

/** exp of a log-weight kept in [-20, 20]. */
export function expBounded(logWeights: Tensor): Tensor {
  return logWeights.clamp(-LOG_WEIGHT_BOUND, LOG_WEIGHT_BOUND).exp();
}

function boundWeights(raw_BT: Tensor, { low, high, outside }: ImportanceBounds): Tensor {
  if (outside === "clip") return raw_BT.clamp(low, high);
  return raw_BT.maskedFill(outOfBounds(raw_BT, low ?? 0, high), 0);
}

function outOfBounds(values: Tensor, low: number, high: number): Tensor {
  return values.lt(low).logicalOr(values.gt(high));
}

interface Weights {
  readonly weights_BT: Tensor;
  readonly raw_BT: Tensor;
  readonly logSum_B: Tensor;
  readonly mask_BT: Tensor;
}

// The names, and what each metric is computed over, are verl's.
function weightMetrics(weights: Weights, bounds: ImportanceBounds): CorrectionMetrics {
  const { weights_BT, raw_BT, mask_BT } = weights;
  const low = bounds.low ?? 1 / bounds.high;
  const used_BT = weights_BT.clamp(0, bounds.high);
  const relative_BT = used_BT.div(maskedMean(used_BT, mask_BT).add(SMALLEST_MEAN));
  const concentration = maskedMean(relative_BT.square(), mask_BT);
  const isOutside_BT = outOfBounds(raw_BT, low, bounds.high).to(raw_BT.dtype);
  return {
    ...(bounds.level === "token" ? tokenExtremes(weights, low, bounds.high) : rowExtremes(weights, low, bounds.high)),
    rollout_is_mean: maskedMean(weights_BT, mask_BT),
    rollout_is_std: maskedDeviation(used_BT, mask_BT),
    rollout_is_eff_sample_size: concentration.reciprocal().maskedFill(concentration.eq(0), 0),
    ...sequenceMetrics(weights, low, bounds.high),
    ...(bounds.outside === "zero" && { rollout_is_oob_ratio: maskedMean(isOutside_BT, mask_BT) }),
  };
}

function tokenExtremes({ weights_BT, raw_BT, mask_BT }: Weights, low: number, high: number): CorrectionMetrics {
  const share = (condition_BT: Tensor) => maskedMean(condition_BT.to(raw_BT.dtype), mask_BT);
  return {
    rollout_is_max: maskedMax(weights_BT, mask_BT),
    rollout_is_min: maskedMin(weights_BT, mask_BT),
    rollout_is_ratio_fraction_high: share(raw_BT.gt(high)),
    rollout_is_ratio_fraction_low: share(raw_BT.lt(low)),
  };
}

// verl reports the extremes of sequence weights before the bounds, and compares with logs rounded to float32.
function rowExtremes({ logSum_B }: Weights, low: number, high: number): CorrectionMetrics {
  const all_B = onesLike(logSum_B).to("bool");
  return {
    rollout_is_max: logSum_B.max().clamp(null, LOG_WEIGHT_BOUND).exp(),
    rollout_is_min: logSum_B.min().exp(),
    rollout_is_ratio_fraction_high: rowShare(logSum_B.gt(Math.fround(Math.log(high))), all_B),
    rollout_is_ratio_fraction_low: rowShare(logSum_B.lt(Math.fround(Math.log(low))), all_B),
  };
}

// Over all rows, including empty ones with a mean of 0, as in verl.
function sequenceMetrics({ weights_BT, raw_BT, mask_BT }: Weights, low: number, high: number): CorrectionMetrics {
  const mean_B = maskedMean(weights_BT, mask_BT, 1);
  const rawMean_B = maskedMean(raw_BT, mask_BT, 1);
  const all_B = onesLike(mean_B).to("bool");
  const summary = rowSummary(mean_B, all_B);
  return {
    rollout_is_seq_mean: summary.mean,
    rollout_is_seq_std: summary.std,
    rollout_is_seq_max: summary.max,
    rollout_is_seq_min: summary.min,
    rollout_is_seq_max_deviation: mean_B.sub(1).abs().max(),
    rollout_is_seq_fraction_high: rowShare(rawMean_B.gt(high), all_B),
    rollout_is_seq_fraction_low: rowShare(rawMean_B.lt(low), all_B),
  };
}
