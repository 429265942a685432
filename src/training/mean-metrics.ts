/** The metrics of several updates as one: the mean of every number over the updates that gave it. */
import type { Metrics } from "../flow/metrics.ts";

/** Empty for no records. */
export function meanMetrics(records: readonly Metrics[]): Metrics {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const [name, value] of records.flatMap((record) => Object.entries(record))) {
    const known = sums.get(name) ?? { sum: 0, count: 0 };
    sums.set(name, { sum: known.sum + value, count: known.count + 1 });
  }
  return Object.fromEntries([...sums].map(([name, { sum, count }]) => [name, sum / count]));
}
