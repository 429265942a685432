/** What the thread of a control run and its owner say to each other. Plain data: it crosses threads by structured clone. */
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { TrainResult } from "../../run/train-run.ts";
import type { MetricKind } from "../../tracking/run-record.ts";
import type { LoopStage } from "../../tracking/span-recorder.ts";

/** What the thread is started with. It reads the run file itself, since that may hold code. */
export interface ControlThreadData {
  readonly runFile: string;
  readonly sets: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly isResumed: boolean;
  /** One Int32: 1 when the run is to end after the step under way. Shared, because a thread that computes hears nothing. */
  readonly stop: SharedArrayBuffer;
}

/** What the thread tells, in order. */
export type FromControlThread =
  | { readonly kind: "note"; readonly text: string }
  | { readonly kind: "log"; readonly step: number; readonly of: MetricKind; readonly metrics: Metrics }
  | { readonly kind: "begin" | "end"; readonly stage: LoopStage }
  /** Answered with any message, when everything so far would survive the process. */
  | { readonly kind: "flush" }
  | { readonly kind: "done"; readonly result: TrainResult }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string };
