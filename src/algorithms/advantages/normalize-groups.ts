/** Centers and scales numbers, each over its group or over all of them. */
import { expectRange } from "../expect-batch.ts";

/** Where a statistic is taken: over the group of a row, over all rows, or not at all. */
type StatisticLevel = "group" | "batch" | "none";

/**
 * The advantage of a sample that is alone in its group, without others to take a mean or a spread from.
 * - `zero`: 0, so the sample does not train. The default.
 * - `raw`: its reward, against mean 0 and deviation 1, as verl does. It trains without a baseline.
 */
export type Singleton = "zero" | "raw";

/** (x - mean) / (deviation + epsilon), each statistic where its level says. */
export interface NormalizeOptions {
  readonly mean: StatisticLevel;
  readonly deviation: StatisticLevel;
  /** Added to the deviation. Default 1e-6, as in verl. */
  readonly epsilon?: number;
  readonly singleton?: Singleton;
}

/** Normalizes values by groups of rows. Deviations are unbiased (n - 1). Equal values give exactly 0. */
export function normalizeGroups(
  values: readonly number[],
  groups: readonly (readonly number[])[],
  { mean, deviation, epsilon = 1e-6, singleton = "zero" }: NormalizeOptions,
): number[] {
  expectRange("epsilon", epsilon, 0);
  const batch = momentsOf(values);
  const result = new Array<number>(values.length);
  for (const rows of groups) {
    const group = momentsOf(rows.map((row) => values[row]!));
    const center = pick(mean, group, batch);
    const scale = pick(deviation, group, batch);
    const isAlone = center.count === 1 || scale.count === 1;
    // Values without spread that are not centered among themselves would be divided by epsilon alone.
    const isFlat = mean !== "group" && mean !== deviation && scale.deviation <= epsilon;
    for (const row of rows) {
      if (isAlone) result[row] = singleton === "zero" ? 0 : rawValue(values[row]!, center, scale, epsilon);
      else if (isFlat) result[row] = 0;
      else result[row] = shift(values[row]!, center) / divisor(scale, epsilon);
    }
  }
  return result;
}

/** Mean and unbiased deviation; the deviation of fewer than two values is 0. */
interface Moments {
  readonly count: number;
  readonly mean: number;
  readonly deviation: number;
}

/** Taken relative to the first value, so that equal values have exactly that mean and exactly no deviation. */
export function momentsOf(values: readonly number[]): Moments {
  const count = values.length;
  const origin = values[0] ?? 0;
  const mean = origin + values.reduce((sum, value) => sum + (value - origin), 0) / Math.max(count, 1);
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { count, mean, deviation: Math.sqrt(squares / Math.max(count - 1, 1)) };
}

// A level of "none" counts as many, so that it is never taken for a single sample.
const NO_STATISTIC: Moments = { count: Number.POSITIVE_INFINITY, mean: 0, deviation: Number.NaN };

function pick(level: StatisticLevel, group: Moments, batch: Moments): Moments {
  switch (level) {
    case "group":
      return group;
    case "batch":
      return batch;
    case "none":
      return NO_STATISTIC;
  }
}

function rawValue(value: number, center: Moments, scale: Moments, epsilon: number): number {
  const shifted = center.count === 1 ? value : shift(value, center);
  return shifted / (scale.count === 1 ? 1 + epsilon : divisor(scale, epsilon));
}

function shift(value: number, center: Moments): number {
  return value - center.mean;
}

function divisor(scale: Moments, epsilon: number): number {
  if (scale === NO_STATISTIC) return 1;
  // Equal values with an epsilon of 0 would give 0 / 0.
  return scale.deviation + epsilon || 1;
}
