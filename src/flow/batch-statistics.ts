/** Numbers of a whole batch that travel with it: what losses are divided by, and metrics that are still on the device. */
import type { Tensor } from "../torch/tensor.ts";

/** What the loss of a whole batch is divided by. */
export interface Denominators {
  /** Positions with lossMask. */
  readonly numTokens: number;
  /** Rows with at least one loss token. */
  readonly numSequences: number;
  /** Trajectories with at least one loss token. */
  readonly numTrajectories: number;
  /** Groups with at least one loss token. */
  readonly numPrompts: number;
  /** Loss tokens by trajectory; 0 for trajectories without any. */
  readonly tokensPerTrajectory: ReadonlyMap<number, number>;
  /** Loss tokens by group; 0 for groups without any. */
  readonly tokensPerPrompt: ReadonlyMap<number, number>;
}

/** A mean that is not divided yet; both tensors have no dimensions and no gradient. */
export interface MetricSum {
  readonly sum: Tensor;
  readonly count: Tensor;
}

/** Means by name. Names are `stage/quantity`. */
export type LossMetrics = Readonly<Record<string, MetricSum>>;

/** Tensors without dimensions by name, as in `rollout_corr/kl`. */
export type CorrectionMetrics = Readonly<Record<string, Tensor>>;
