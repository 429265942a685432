/** What a run of control needs of an algorithm: who acts, how it learns, and how it is kept. */

import type { Metrics } from "../flow/metrics.ts";
import type { LoopPosition } from "../loops/loop-parts.ts";
import type { ControlCollector } from "./collector/collector.ts";
import type { ControlLoopParts } from "./control-loop.ts";
import type { ControlRollout } from "./control-rollout.ts";
import type { VecEnv } from "./envs/vec-env.ts";
import type { ControlEvaluationOptions } from "./evaluation.ts";

/** An algorithm with its environments, ready to run. */
export interface ControlLearner {
  readonly collector: ControlCollector;
  /** Learns from a rollout: the weights have changed when it returns. */
  readonly train: (rollout: ControlRollout) => Metrics;
  /** Rolls out and trains to the end of the run. */
  readonly loop: (parts: ControlLoopParts, start: LoopPosition) => Promise<LoopPosition>;
  /** Writes what other programs load. */
  readonly saveModel: (folder: string) => void;
  /** Writes everything that the next step depends on, but for the environments. */
  readonly saveState: (folder: string) => void;
  /** Reads it from `state/` of a checkpoint. Refuses one whose `model/` has other networks. */
  readonly loadCheckpoint: (folder: string) => void;
  /** Episodes of the most likely actions. */
  readonly evaluate: (env: VecEnv, options: ControlEvaluationOptions) => Metrics;
}
