/** The contract between a run of control and an algorithm: who acts, how it learns, and how it is saved. */

import type { Metrics } from "../flow/metrics.ts";
import type { ControlCollector } from "./collector/collector.ts";
import type { ControlLoopParts } from "./control-loop.ts";
import type { ControlRollout } from "./control-rollout.ts";
import type { VecEnv } from "./envs/vec-env.ts";
import type { ControlEvaluationOptions } from "./evaluation.ts";

/** An algorithm with its environments, ready to run. */
export interface ControlLearner extends Pick<ControlLoopParts, "beforeStep"> {
  readonly collector: ControlCollector;
  /** Training steps of the whole run, with one rollout each. */
  readonly numSteps: number;
  /** Learns from a rollout; the weights have changed when it returns. */
  readonly train: (rollout: ControlRollout) => Metrics;
  /** Writes the policy for other programs to load. */
  readonly saveModel: (folder: string) => void;
  /** Writes everything that the next step depends on, except for the environments. */
  readonly saveState: (folder: string) => void;
  /** Reads `state/` of a checkpoint. Refuses a checkpoint whose `model/` has other networks. */
  readonly loadCheckpoint: (folder: string) => void;
  /** Plays episodes with the most likely actions. */
  readonly evaluate: (env: VecEnv, options: ControlEvaluationOptions) => Metrics;
}
