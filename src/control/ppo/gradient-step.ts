/**
 * One gradient step, for every network of control: backward, clip, check, step.
 *
 * A loss or a gradient norm that is NaN or infinite would reach every weight through the optimizer, so such an update is
 * skipped: weights, moments and step counts stay as they were. A single bad minibatch costs one update; a run in which
 * nothing else happens stops.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Skipped updates in a row after which a run stops. One outlier spoils a few minibatches; ten in a row are no accident. */
const MAX_SKIPPED_IN_A_ROW = 10;

/** Metrics of the updates that were made, and the number of those that were skipped. */
export interface UpdateSummary {
  readonly metrics: Metrics;
  readonly numSkipped: number;
}

/** Updates some networks by one loss. Counts the updates that were skipped in a row; a resumed run counts afresh. */
export class GradientStep {
  readonly #optimizers: readonly Optimizer[];
  #numSkippedInARow = 0;

  /** @param optimizers one per network, which is clipped on its own */
  constructor(optimizers: readonly Optimizer[]) {
    this.#optimizers = optimizers;
  }

  /** Returns the gradient norm of every network from before clipping, or null for an update that was skipped. */
  take(loss: Tensor, maxGradNorm: number): readonly Tensor[] | null {
    for (const optimizer of this.#optimizers) optimizer.zeroGrad();
    loss.backward();
    const norms = this.#optimizers.map(({ groups }) =>
      clipGradNorm(
        groups.flatMap(({ parameters }) => [...parameters.values()]),
        maxGradNorm,
      ),
    );
    const values = [loss, ...norms].map((value) => value.item());
    if (!values.every(Number.isFinite)) return this.#skip(values);
    this.#numSkippedInARow = 0;
    for (const optimizer of this.#optimizers) optimizer.step();
    return norms;
  }

  #skip([loss, ...norms]: readonly number[]): null {
    this.#numSkippedInARow++;
    if (this.#numSkippedInARow < MAX_SKIPPED_IN_A_ROW) return null;
    throw new RerollError(
      "NON_FINITE",
      `${MAX_SKIPPED_IN_A_ROW} updates in a row had to be skipped: the last had a loss of ${loss} and a gradient norm of ` +
        `${norms.join(" and ")}. Both must be finite. Look for rewards or observations of extreme size in the environment, ` +
        "or lower algorithm.lr; the last checkpoint has weights from before.",
      { loss, norms },
    );
  }
}
