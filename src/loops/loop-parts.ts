/** The parts that a loop runs on: built objects, never config. */

import type { Metrics } from "../flow/metrics.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import type { StepReport } from "../training/token-trainer.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";

export interface LoopParts {
  readonly rollout: RolloutPart;
  /** Builds from groups what training reads. */
  readonly experience: ExperiencePart;
  readonly trainer: Pick<Trainer, "step">;
  readonly sync: WeightSync;
  readonly observer: LoopObserver;
  /** Groups per training step. */
  readonly groupsPerStep: number;
}

interface RolloutPart {
  take(numGroups: number, signal: AbortSignal): Promise<Rollout>;
  /** Training steps done so far, and the version that new tokens are drawn with. */
  setProgress(step: number, version: number): void;
}

export interface ExperiencePart {
  /** @param version of the weights that are about to be trained: the number of steps done */
  build(
    groups: readonly TrajectoryGroup[],
    version: number,
  ): { readonly batch: SampleBatch; readonly metrics: Metrics };
  /** What training found in the batch that was built last. */
  onTrained?(report: StepReport): void;
}

/** Position of a loop. */
export interface LoopPosition {
  /** Training steps done. */
  readonly step: number;
  /** The step whose weights were published last: below `step` between two publications. */
  readonly version: number;
}

/** What a loop reports, and when: recording, validation and checkpoints attach here. The loop waits for each call. */
export interface LoopObserver {
  /**
   * Called before the first step, when version `position.version` is published. Returns whether there is anything to
   * do.
   */
  onStart?(position: LoopPosition): Promise<"continue" | "stop">;
  onRollout?(step: number, rollout: Rollout): Promise<void>;
  /** Called after every step, once its weights are published if that was due. Returns whether to go on. */
  onStep(position: LoopPosition, metrics: Metrics): Promise<"continue" | "stop">;
}
