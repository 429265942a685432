/** What a run tells while it goes on. The tracker of the run folder is one; tests use a plain object. */
import type { Metrics } from "../flow/metrics.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import type { SampleEvent } from "../rollout/rollout-scheduler.ts";
import type { RecordedRollout } from "../tracking/trajectory-record.ts";

export type MetricKind = "train" | "validation" | "supervised";

/** What a worker does: the loop's own phases. */
export type LoopStage = "rollout" | "train" | "sync" | "validate" | "checkpoint";

export interface RunRecorder {
  /** A sentence for the person who watches. */
  say(text: string): void;
  log(step: number, kind: MetricKind, metrics: Metrics): void;
  /** How many groups of a step's rollout it wants to know everything about: the first ones. Absent: none. */
  recordedGroups?(step: number): number;
  recordRollout(step: number, kind: MetricKind, rollout: Rollout & Pick<RecordedRollout, "trained">): void;
  sampleEvent(event: SampleEvent): void;
  /** Runs a phase of the loop, and notes when it began and ended. */
  span<Result>(stage: LoopStage, work: () => Promise<Result>): Promise<Result>;
  /** Resolves when everything so far would survive the process. */
  flush?(): Promise<void>;
}

/** Records nothing. */
export const silentRecorder: RunRecorder = {
  say() {},
  log() {},
  recordRollout() {},
  sampleEvent() {},
  span: (_, work) => work(),
};
