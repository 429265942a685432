/**
 * Rejects tokens that are too far off-policy to train on, by criteria that must all hold, with verl's metrics for each.
 */

import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { maskedMax, maskedMean, maskedMin, maskedSum } from "../masked.ts";
import { maskedDeviation, rowShare, rowSummary } from "./correction-metrics.ts";
import type { Criterion } from "./correction-options.ts";
import { LOG_WEIGHT_BOUND } from "./importance-weights.ts";

interface Rejection {
  /** The mask without the rejected tokens. */
  readonly lossMask_BT: Tensor;
  readonly metrics: CorrectionMetrics;
}

/** Rejects every token that fails a criterion. At least one criterion must be given. */
export function rejectTokens(logRatio_BT: Tensor, mask_BT: Tensor, criteria: readonly Criterion[]): Rejection {
  const tested = criteria.map((criterion) => testCriterion(logRatio_BT, mask_BT, criterion));
  const lossMask_BT = tested.reduce((kept_BT, { keep_BT }) => kept_BT.logicalAnd(keep_BT), mask_BT);
  const rejected_BT = mask_BT.logicalAnd(lossMask_BT.logicalNot());
  return {
    lossMask_BT,
    metrics: {
      ...Object.assign({}, ...tested.map(({ metrics }) => metrics)),
      rollout_rs_masked_fraction: maskedMean(rejected_BT.to(logRatio_BT.dtype), mask_BT),
      // Over all rows, including empty ones, as in verl.
      rollout_rs_seq_masked_fraction: anyInRow(rejected_BT).to("float32").mean(),
    },
  };
}

function testCriterion(logRatio_BT: Tensor, mask_BT: Tensor, criterion: Criterion) {
  const statistic = statisticOf(logRatio_BT, mask_BT, criterion);
  const withinHigh_BT = statistic.value_BT.le(criterion.high);
  const passes_BT =
    criterion.low === null ? withinHigh_BT : withinHigh_BT.logicalAnd(statistic.value_BT.ge(criterion.low));
  const fails_BT = mask_BT.logicalAnd(passes_BT.logicalNot());
  const failsInRow_B = anyInRow(fails_BT);
  const keep_BT = criterion.scope === "token" ? passes_BT : failsInRow_B.logicalNot().unsqueeze(1);
  const prefix = `rollout_rs_${criterion.name}`;
  const lost_BT = mask_BT.logicalAnd(keep_BT.logicalNot()).to(logRatio_BT.dtype);
  return {
    keep_BT,
    metrics: {
      ...prefixed(prefix, statisticMetrics(statistic, mask_BT, criterion)),
      [`${prefix}_masked_fraction`]: maskedMean(lost_BT, mask_BT),
      [`${prefix}_seq_masked_fraction`]: shareOfRows(failsInRow_B, mask_BT, logRatio_BT),
    },
  };
}

interface Statistic {
  /** The value compared with the bounds; criteria over sequences have the same one at all tokens of a row. */
  readonly value_BT: Tensor;
  /** The statistic of a sequence; for token criteria the mean over its tokens. */
  readonly value_B: Tensor;
}

function statisticOf(logRatio_BT: Tensor, mask_BT: Tensor, { statistic, over }: Criterion): Statistic {
  const log_BT = logRatio_BT.clamp(-LOG_WEIGHT_BOUND, LOG_WEIGHT_BOUND);
  if (over === "token") {
    const value_BT = divergence(log_BT, statistic);
    return { value_BT, value_B: maskedMean(value_BT, mask_BT, 1) };
  }
  const value_B = sequenceStatistic(log_BT, mask_BT, statistic, over);
  return { value_BT: value_B.unsqueeze(1).expand(...mask_BT.shape), value_B };
}

function sequenceStatistic(
  log_BT: Tensor,
  mask_BT: Tensor,
  statistic: Criterion["statistic"],
  over: "sum" | "mean" | "max",
): Tensor {
  // A product and a geometric mean of weights are a sum and a mean of their logs.
  const isLogMean = statistic === "weight" && over !== "max";
  const value_BT = isLogMean ? log_BT : divergence(log_BT, statistic);
  const value_B = aggregate(value_BT, mask_BT, over);
  return isLogMean ? value_B.clamp(-LOG_WEIGHT_BOUND, LOG_WEIGHT_BOUND).exp() : value_B;
}

function divergence(log_BT: Tensor, statistic: Criterion["statistic"]): Tensor {
  switch (statistic) {
    case "weight":
      return log_BT.exp();
    case "k1":
      return log_BT.neg();
    case "k2":
      return log_BT.square().mul(0.5);
    case "k3":
      return log_BT.exp().sub(1).sub(log_BT);
  }
}

function aggregate(value_BT: Tensor, mask_BT: Tensor, over: "sum" | "mean" | "max"): Tensor {
  switch (over) {
    case "sum":
      return maskedSum(value_BT, mask_BT, 1);
    case "mean":
      return maskedMean(value_BT, mask_BT, 1);
    case "max":
      return maskedMax(value_BT, mask_BT, 1);
  }
}

function statisticMetrics({ value_BT, value_B }: Statistic, mask_BT: Tensor, criterion: Criterion): CorrectionMetrics {
  const { over, statistic, low, high } = criterion;
  const valid_B = mask_BT.sum(1).gt(0);
  const rows = rowSummary(value_B, valid_B);
  const isToken = over === "token";
  const share = (condition: (value: Tensor) => Tensor) =>
    isToken ? maskedMean(condition(value_BT).to(value_BT.dtype), mask_BT) : rowShare(condition(value_B), valid_B);
  const isHigh = (value: Tensor) => value.gt(high);
  const isLow = (value: Tensor) => (low === null ? value.isNaN() : value.lt(low));
  const ideal = statistic === "weight" ? 1 : 0;
  const deviation_B = value_B.sub(ideal).abs();
  return {
    mean: maskedMean(value_BT, mask_BT),
    max: isToken ? maskedMax(value_BT, mask_BT) : rows.max,
    min: isToken ? maskedMin(value_BT, mask_BT) : rows.min,
    fraction_high: share(isHigh),
    fraction_low: share(isLow),
    std: maskedDeviation(value_BT.clamp(low ?? 0, high), mask_BT),
    seq_mean: rows.mean,
    seq_std: rows.std,
    seq_max: rows.max,
    seq_min: rows.min,
    seq_max_deviation: rowSummary(deviation_B, valid_B).max,
    seq_fraction_high: rowShare(isHigh(value_B), valid_B),
    ...(low !== null && { seq_fraction_low: rowShare(isLow(value_B), valid_B) }),
  };
}

function shareOfRows(condition_B: Tensor, mask_BT: Tensor, like: Tensor): Tensor {
  const numValid = mask_BT.sum(1).gt(0).sum().to(like.dtype);
  return condition_B.sum().to(like.dtype).div(numValid.clamp(1));
}

function anyInRow(condition_BT: Tensor): Tensor {
  return condition_BT.sum(1).gt(0);
}

function prefixed(prefix: string, metrics: CorrectionMetrics): CorrectionMetrics {
  return Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`${prefix}_${name}`, value]));
}
