/** Destinations of metrics beside the run's own folder. */
import type { MetricRecord, RunInfo, RunStatus } from "./run-record.ts";

/**
 * A place that metrics are sent to. It never throws and never makes the run wait, except in `close`, and there not for long:
 * what goes wrong with it is said once through `SinkContext.warn`.
 */
export interface MetricSink {
  log(record: MetricRecord): void;
  close(status: RunStatus): Promise<void>;
}

/** Opens a sink for a run. */
export type OpenSink = (context: SinkContext) => MetricSink;

/** The run, as a sink sees it. */
export interface SinkContext {
  readonly info: RunInfo;
  readonly folder: string;
  readonly config: unknown;
  /** The step that the run goes on after; 0 for a new one. */
  readonly startStep: number;
  readonly warn: (text: string) => void;
}
