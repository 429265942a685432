/**
 * The roles of a step that are not in the trainer's own workers: models elsewhere that measure its rows, and a critic elsewhere that learns from
 * them. Their numbers are those that the trainer would have computed itself.
 *
 * Values travel as arrays on the grid of the batch, row after row, which everyone lays out alike from the same rows: see token-rows.ts.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { ScoredBatch } from "../../flow/token-batch.ts";
import { tensor } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { Grid, RowTokens } from "../token-rows.ts";

/** What ranks of a trainer ask in a step. Each thing is computed once, whoever asks first. */
export interface OtherRoles {
  /** Log-probs of the sampled tokens under the reference. */
  readonly referenceLogprobs?: () => Promise<Float32Array>;
  /** What the critic says about the rows before it learns from them. */
  readonly values?: () => Promise<GridValues>;
  /** How the critic learns. Only the first rank has it, and speaks for all. */
  readonly critic?: CriticLearning;
}

export interface GridValues {
  readonly values: Float32Array;
  /** After the last token of each row. */
  readonly bootstrap: Float32Array;
}

/** The updates of a critic, in step with those of the policy. */
export interface CriticLearning {
  /** What the rows of this step are worth. Once, before the first update. */
  teach(targets: ValueTargets): Promise<void>;
  /** Computes the gradients of an update. Out: whether they and the loss are finite. */
  update(rows: readonly number[]): Promise<boolean>;
  /** Makes the update with this factor on the learning rate, or drops it. */
  apply(outcome: "made" | "skipped", factor: number): Promise<void>;
  /** The metrics of the step's updates. */
  report(): Promise<Metrics>;
}

/** What a critic learns from, for all rows of a batch. */
export interface ValueTargets {
  readonly returns: Float32Array;
  readonly oldValues: Float32Array;
  readonly lossMask: Float32Array;
  readonly rowWeights: Float32Array | null;
  readonly groupOf: readonly number[];
  readonly trajectoryOf: readonly number[];
}

/** A scored batch as a critic elsewhere is taught it. */
export function valueTargets(scored: ScoredBatch): ValueTargets {
  const { returns_BT, oldValues_BT, lossMask_BT, rowWeights_B, groupOf, trajectoryOf } = scored;
  invariant(returns_BT !== null && oldValues_BT !== null, "a recipe with a critic gave it no returns");
  return {
    returns: returns_BT.toFloat32Array(),
    oldValues: oldValues_BT.toFloat32Array(),
    lossMask: lossMask_BT.toFloat32Array(),
    rowWeights: rowWeights_B?.toFloat32Array() ?? null,
    groupOf,
    trajectoryOf,
  };
}

/** What others have measured of all rows, as tensors that the caller frees. Waits for them. */
export async function measuredElsewhere(
  { referenceLogprobs, values }: OtherRoles,
  { samples, numColumns }: Grid<RowTokens>,
  device: Device,
): Promise<{
  readonly referenceLogprobs_BT?: Tensor;
  readonly values_BT?: Tensor;
  readonly bootstrapValues_B?: Tensor;
}> {
  const [reference, critic] = await Promise.all([referenceLogprobs?.(), values?.()]);
  const shape = [samples.length, numColumns];
  return {
    ...(reference !== undefined && { referenceLogprobs_BT: tensor(reference, shape, { device }) }),
    ...(critic !== undefined && {
      values_BT: tensor(critic.values, shape, { device }),
      bootstrapValues_B: tensor(critic.bootstrap, [samples.length], { device }),
    }),
  };
}

/** The metrics of a step whose critic is elsewhere: the value term is part of the loss as where one trainer has both. */
export function withCriticMetrics(own: Metrics, ofCritic: Metrics): Metrics {
  const { "train/lr": _, "train/skipped_updates": __, ...learned } = ofCritic;
  const loss = own["train/loss"];
  return {
    ...own,
    ...learned,
    ...(loss !== undefined && { "train/loss": loss + (learned["train/loss_value"] ?? 0) }),
  };
}
