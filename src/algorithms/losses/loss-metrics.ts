/** Metrics of losses: sums and counts on the device, which add up over microbatches and ranks. */
import type { LossMetrics, MetricSum } from "../../flow/batch-statistics.ts";
import { stack } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { maskedCount, maskedSum } from "../masked.ts";

/** The mean of a value over the tokens of a mask. */
export function meanOver(mask: Tensor, values: Tensor): MetricSum {
  const fixed = values.detach();
  return { sum: maskedSum(fixed, mask), count: maskedCount(mask, fixed) };
}

/** The share of the tokens of a mask at which a condition holds, in the float type of `like`. */
export function shareOf(mask: Tensor, condition: Tensor, like: Tensor): MetricSum {
  return { sum: maskedCount(condition.logicalAnd(mask), like), count: maskedCount(mask, like) };
}

/** The metrics of a batch from those of its parts. A name may be missing from some parts. */
export function addMetrics(parts: readonly LossMetrics[]): LossMetrics {
  const total: Record<string, MetricSum> = {};
  for (const [name, { sum, count }] of parts.flatMap((part) => Object.entries(part))) {
    const known = total[name];
    total[name] = known === undefined ? { sum, count } : { sum: known.sum.add(sum), count: known.count.add(count) };
  }
  return total;
}

/** The means as numbers, read from the device in one go. A mean over nothing is left out. */
export function readMetrics(metrics: LossMetrics): Record<string, number> {
  const entries = Object.entries(metrics);
  if (entries.length === 0) return {};
  const values = tensorScope(() =>
    stack(entries.flatMap(([, { sum, count }]) => [sum.to("float64"), count.to("float64")])).toArray(),
  );
  return Object.fromEntries(
    entries
      .map(([name], i) => [name, values[2 * i]!, values[2 * i + 1]!] as const)
      .filter(([, , count]) => count > 0)
      .map(([name, sum, count]) => [name, sum / count]),
  );
}
