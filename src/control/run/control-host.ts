/** A control run that computes in a thread, as its owner calls it. */
import type { TrainResult } from "../../run/train-run.ts";
import type { RunTracker } from "../../tracking/run-tracker.ts";
import type { LoopStage } from "../../tracking/span-recorder.ts";

/** What the thread is started with. It reads the run file itself, since that may hold code. */
export interface ControlSource {
  readonly runFile: string;
  readonly sets: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly isResumed: boolean;
  /** One Int32: 1 when the run is to end after the step under way. Shared, because a thread that computes hears nothing. */
  readonly stop: SharedArrayBuffer;
}

/** What a run tells while it goes on. A stage is told by its begin and its end, since its work stays in the thread. */
export interface ControlListener extends Pick<RunTracker, "note" | "log"> {
  begin(stage: LoopStage): void;
  end(stage: LoopStage): void;
  /** Resolves when everything so far would survive the process. */
  flush(): Promise<void>;
}

export interface ControlHost {
  /** Runs to the end, or to where it is stopped. Called once. */
  run(listener: ControlListener): Promise<TrainResult>;
}
