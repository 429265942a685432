/**
 * The points of one metric as a chart wants them. Pure: the server cuts them out of files, and an exported page out of itself.
 *
 * In: all points in the order in which they were written. Out: those of a window, thinned out, with a moving average over all.
 */
import type { Series } from "./answers.ts";
import { thinOut } from "./thin-out.ts";

/** Which points of a metric are wanted. */
export interface SeriesQuery {
  readonly maxPoints: number;
  /** Weight of the past in the moving average, from 0 (none) to below 1. */
  readonly smoothing: number;
  /** The axis that `from` and `to` are on. */
  readonly axis: "step" | "time";
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

interface Points {
  readonly steps: ArrayLike<number>;
  readonly timesMs: ArrayLike<number>;
  readonly values: ArrayLike<number>;
}

export function seriesWindow(name: string, { steps, timesMs, values }: Points, query: SeriesQuery): Series {
  const { maxPoints, smoothing, axis, from, to } = query;
  const positions = axis === "step" ? steps : timesMs;
  // One more on each side, so that lines reach the edge.
  const start = from === undefined ? 0 : Math.max(0, firstFrom(positions, from) - 1);
  const end = to === undefined ? values.length : Math.min(values.length, firstFrom(positions, to) + 1);
  const kept = thinOut(values, start, end, maxPoints);
  const smooth = smoothing > 0 ? movingAverage(values, smoothing) : undefined;
  const last = values.length - 1;
  return {
    name,
    steps: kept.map((i) => steps[i]!),
    timesMs: kept.map((i) => timesMs[i]!),
    values: kept.map((i) => finite(values[i]!)),
    smooth: smooth === undefined ? [] : kept.map((i) => finite(smooth[i]!)),
    numPoints: values.length,
    stepRange: [steps[0]!, steps[last]!],
    timeRange: [timesMs[0]!, timesMs[last]!],
  };
}

/**
 * An exponential moving average without the bias toward 0 at the start: sum of w^(t-i) v_i over sum of w^(t-i). Values
 * that are not finite are left out.
 */
export function movingAverage(values: ArrayLike<number>, weight: number): Float64Array {
  const averages = new Float64Array(values.length);
  let sum = 0;
  let total = 0;
  for (let i = 0; i < values.length; i++) {
    if (Number.isFinite(values[i]!)) {
      sum = weight * sum + values[i]!;
      total = weight * total + 1;
    }
    averages[i] = total === 0 ? Number.NaN : sum / total;
  }
  return averages;
}

/** The first index whose position is not below the given one; positions never decrease. */
function firstFrom(positions: ArrayLike<number>, position: number): number {
  let low = 0;
  let high = positions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positions[middle]! < position) low = middle + 1;
    else high = middle;
  }
  return low;
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
