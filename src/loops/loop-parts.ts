/** What loops are given: built parts, never config. */

import type { Metrics } from "../flow/metrics.ts";
import type { SampleBatch } from "../flow/token-sample.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import type { StepReport } from "../training/token-trainer.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";

export interface LoopParts {
  readonly rollout: RolloutPart;
  /** From groups to what training reads. */
  readonly experience: ExperiencePart;
  readonly trainer: Pick<Trainer, "step">;
  readonly sync: WeightSync;
  readonly observer: LoopObserver;
  /** Groups per training step. */
  readonly groupsPerStep: number;
}

interface RolloutPart {
  take(numGroups: number, signal: AbortSignal): Promise<Rollout>;
  setVersion(version: number): void;
}

export interface ExperiencePart {
  build(
    groups: readonly TrajectoryGroup[],
    version: number,
  ): { readonly batch: SampleBatch; readonly metrics: Metrics };
  /** What training found in the batch that was built last. */
  onTrained?(report: StepReport): void;
}

/** Where a loop stands. Steps count from 1; the version after step n of a synchronous loop is n. */
export interface LoopPosition {
  readonly step: number;
  readonly version: number;
}

/** What a loop tells, and when: recording, validation and checkpoints hang here. The loop waits for each call. */
export interface LoopObserver {
  /** Before the first step, when version `position.version` is published. Says whether there is anything to do. */
  onStart?(position: LoopPosition): Promise<"continue" | "stop">;
  onRollout?(step: number, rollout: Rollout): Promise<void>;
  /** After every step, when its weights are published. Says whether to go on. */
  onStep(position: LoopPosition, metrics: Metrics): Promise<"continue" | "stop">;
}
