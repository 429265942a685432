/**
 * The metrics of one run by name, ready to be drawn.
 *
 * In: the lines of `metrics.jsonl` as they come. Out: the points of a metric in a window.
 */
import { join } from "node:path";
import { describeMetric } from "../flow/metrics.ts";
import { parseMetrics } from "../tracking/read-run.ts";
import { type MetricKind, runFiles } from "../tracking/run-record.ts";
import type { NamedMetric, Series } from "./answers.ts";
import { GrowingFile } from "./growing-file.ts";
import { NumberList } from "./number-list.ts";
import { type SeriesQuery, seriesWindow } from "./series-window.ts";

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
  series(name: string, query: SeriesQuery): Series | undefined {
    const column = this.#columns.get(name);
    if (column === undefined) return undefined;
    const points = { steps: column.steps.view(), timesMs: column.timesMs.view(), values: column.values.view() };
    return seriesWindow(name, points, query);
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
