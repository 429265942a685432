/**
 * The metrics of one run by name, ready to be drawn.
 *
 * In: the lines of `metrics.jsonl` as they come. Out: the points of a metric in a window, thinned out, with a moving average over
 * all of them.
 */
import { join } from "node:path";
import { describeMetric } from "../flow/metrics.ts";
import { parseMetrics } from "../tracking/read-run.ts";
import { type MetricKind, runFiles } from "../tracking/run-record.ts";
import type { NamedMetric, Series } from "./answers.ts";
import { GrowingFile } from "./growing-file.ts";
import { NumberList } from "./number-list.ts";
import { thinOut } from "./thin-out.ts";

/** Which points of a metric are wanted. */
interface SeriesQuery {
  readonly maxPoints: number;
  /** Weight of the past in the moving average, from 0 (none) to below 1. */
  readonly smoothing: number;
  /** The axis that `from` and `to` are on. */
  readonly axis: "step" | "time";
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

interface Column {
  readonly kind: MetricKind;
  readonly steps: NumberList;
  readonly timesMs: NumberList;
  readonly values: NumberList;
}

/** The metrics of one run, growing with its file. */
export class MetricColumns {
  readonly #columns = new Map<string, Column>();
  readonly file: GrowingFile;
  numRecords = 0;
  lastStep = 0;
  lastMs = 0;

  constructor(folder: string) {
    this.file = new GrowingFile(join(folder, runFiles.metrics), {
      take: (json) => this.#take(json),
      onReset: () => {
        this.#columns.clear();
        this.numRecords = 0;
        this.lastStep = 0;
      },
    });
  }

  names(): readonly NamedMetric[] {
    return [...this.#columns].map(([name, { kind, values }]) => ({
      ...{ name, kind, numPoints: values.length },
      info: describeMetric(name) ?? null,
    }));
  }

  last(name: string): number | null {
    const value = this.#columns.get(name)?.values.view().at(-1);
    return value === undefined || !Number.isFinite(value) ? null : value;
  }

  /** Undefined for a name that the run has not written. */
  series(name: string, { maxPoints, smoothing, axis, from, to }: SeriesQuery): Series | undefined {
    const column = this.#columns.get(name);
    if (column === undefined) return undefined;
    const [steps, timesMs, values] = [column.steps.view(), column.timesMs.view(), column.values.view()];
    const positions = axis === "step" ? steps : timesMs;
    // One more on each side, so that lines reach the edge.
    const start = from === undefined ? 0 : Math.max(0, firstFrom(positions, from) - 1);
    const end = to === undefined ? values.length : Math.min(values.length, firstFrom(positions, to) + 1);
    const kept = thinOut(values, start, end, maxPoints);
    const smooth = smoothing > 0 ? movingAverage(values, smoothing) : undefined;
    return {
      name,
      steps: kept.map((i) => steps[i]!),
      timesMs: kept.map((i) => timesMs[i]!),
      values: kept.map((i) => finite(values[i]!)),
      smooth: smooth === undefined ? [] : kept.map((i) => finite(smooth[i]!)),
      numPoints: values.length,
      stepRange: [steps.at(0)!, steps.at(-1)!],
      timeRange: [timesMs.at(0)!, timesMs.at(-1)!],
    };
  }

  #take(json: unknown): void {
    const record = parseMetrics(json);
    if (record === undefined) return;
    this.numRecords++;
    this.lastMs = record.timeMs;
    if (record.kind !== "supervised") this.lastStep = record.step;
    for (const [name, value] of Object.entries(record.metrics)) {
      // Supervised steps are counted separately, and would be drawn over those of training.
      if (record.kind === "supervised" && !name.startsWith("supervised/")) continue;
      const column = this.#column(name, record.kind);
      column.steps.push(record.step);
      column.timesMs.push(record.timeMs);
      column.values.push(value);
    }
  }

  #column(name: string, kind: MetricKind): Column {
    const known = this.#columns.get(name);
    if (known !== undefined) return known;
    const column = { kind, steps: new NumberList(), timesMs: new NumberList(), values: new NumberList() };
    this.#columns.set(name, column);
    return column;
  }
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
