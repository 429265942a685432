/** Metrics of a correction: numbers for a whole batch, kept on the device until they are read together. */
import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import { stack } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { maskedMean } from "../masked.ts";

/** The metrics as numbers, read from the device in one go. */
export function readCorrectionMetrics(metrics: CorrectionMetrics): Record<string, number> {
  const names = Object.keys(metrics);
  if (names.length === 0) return {};
  const values = tensorScope(() => stack(Object.values(metrics).map((value) => value.to("float64"))).toArray());
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]));
}

/** The share of valid rows for which a condition holds, averaged in float32 as verl does. */
export function rowShare(condition_B: Tensor, valid_B: Tensor): Tensor {
  const count = valid_B.sum().to("float32").clamp(1);
  return condition_B.logicalAnd(valid_B).sum().to("float32").div(count);
}

/** The root of mean(x^2) - mean(x)^2 over the mask; 0 for fewer than two positions. */
export function maskedDeviation(values_BT: Tensor, mask_BT: Tensor): Tensor {
  const mean = maskedMean(values_BT, mask_BT);
  const variance = maskedMean(values_BT.square(), mask_BT).sub(mean.square());
  return variance.clamp(0).sqrt().maskedFill(mask_BT.sum().le(1), 0);
}

/** Mean, unbiased deviation, maximum and minimum over the valid rows; 0 where there are too few. */
export function rowSummary(values_B: Tensor, valid_B: Tensor): Record<"mean" | "std" | "max" | "min", Tensor> {
  const count = valid_B.sum().to(values_B.dtype);
  const hasNone = count.eq(0);
  const mean = values_B.where(valid_B, 0).sum().div(count.clamp(1));
  const spread = values_B.sub(mean).square().where(valid_B, 0).sum().div(count.sub(1).clamp(1));
  return {
    mean,
    std: spread.sqrt(),
    max: values_B.where(valid_B, Number.NEGATIVE_INFINITY).max().maskedFill(hasNone, 0),
    min: values_B.where(valid_B, Number.POSITIVE_INFINITY).min().maskedFill(hasNone, 0),
  };
}
