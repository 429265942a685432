/**
 * Running mean and standard deviation of observations, as part of a policy: its networks see (x - mean) / std, clipped.
 *
 * Nothing changes while a policy acts or is evaluated. Statistics move only in `update`, which training calls with a whole
 * rollout after learning from it, so that all updates see the observations as the policy saw them when it acted. The
 * statistics are parameters without gradients, and so are saved, loaded and published with the weights.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { ones, tensor, zeros } from "../../torch/create.ts";
import { Module, Parameter } from "../../torch/nn/module.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** The observations of a rollout, such as a ControlRollout: T ticks of N rows, the oldest first. */
interface ObservedTicks {
  readonly numTicks: number;
  readonly numEnvs: number;
  readonly observations_TNO: Float32Array;
}

/** How fast old observations are forgotten, and the device of the statistics. */
export interface ObservationNormalizerOptions {
  /** Factor by which the weight of earlier observations shrinks per tick. Default 1: all count the same, forever. */
  readonly decay?: number;
  /** Default "cpu". */
  readonly device?: string;
}

/** Bound on normalized observations, so that an outlier cannot dominate a network. */
const CLIP = 10;

/** Added to the variance, so that a number that never changes is divided by 1e-4 and not by 0. */
const EPSILON = 1e-8;

/** Holds the statistics and normalizes by them. */
export class ObservationNormalizer extends Module {
  readonly mean_O: Parameter;
  /** sqrt(variance + 1e-8). */
  readonly std_O: Parameter;
  /** Number of observations behind mean and deviation, weighted by `decay`. */
  readonly count: Parameter;
  readonly #decay: number;
  #isFrozen = false;

  /** Before the first update, observations are only clipped. */
  constructor(observationSize: number, { decay = 1, device = "cpu" }: ObservationNormalizerOptions = {}) {
    super();
    if (!(decay > 0 && decay <= 1)) {
      throw new RerollError("INVALID_ARGUMENT", `decay must be above 0 and at most 1: got ${decay}.`, { decay });
    }
    this.#decay = decay;
    const fixed = { isTrainable: false };
    this.mean_O = tensorScope(() => new Parameter(zeros([observationSize], { device }), fixed));
    this.std_O = tensorScope(() => new Parameter(ones([observationSize], { device }), fixed));
    this.count = tensorScope(() => new Parameter(zeros([], { dtype: "float64", device }), fixed));
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** Makes every later `update` do nothing. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Normalizes observations, [..., O] to [..., O]. */
  forward(observations: Tensor): Tensor {
    return observations.sub(this.mean_O).div(this.std_O).clamp(-CLIP, CLIP);
  }

  /** Adds the observations of a rollout to the statistics (Chan et al. 1979, with weights). */
  update({ numTicks, numEnvs, observations_TNO }: ObservedTicks): void {
    if (this.#isFrozen || observations_TNO.length === 0) return;
    const O = this.mean_O.numel;
    if (observations_TNO.length !== numTicks * numEnvs * O) {
      throw new RerollError(
        "SHAPE_MISMATCH",
        `${numTicks} ticks of ${numEnvs} environments with ${O} numbers each are ${numTicks * numEnvs * O} numbers: got ` +
          `${observations_TNO.length}.`,
      );
    }
    const weights_T = Float64Array.from({ length: numTicks }, (_, t) => this.#decay ** (numTicks - 1 - t));
    const newCount = weights_T.reduce((sum, weight) => sum + weight, 0) * numEnvs;
    const oldCount = this.count.item() * this.#decay ** numTicks;
    const share = newCount / (oldCount + newCount);
    const [oldMeans, oldStds] = [this.mean_O.toArray(), this.std_O.toArray()];
    const batch = weightedMoments(observations_TNO, weights_T, numEnvs, O);
    const means = oldMeans.map((mean, o) => mean + (batch.means[o]! - mean) * share);
    const stds = oldStds.map((std, o) => {
      const gap = batch.means[o]! - oldMeans[o]!;
      const within = (1 - share) * (std ** 2 - EPSILON) + share * batch.variances[o]!;
      return Math.sqrt(within + share * (1 - share) * gap ** 2 + EPSILON);
    });
    noGrad(() =>
      tensorScope(() => {
        this.mean_O.copy_(tensor(means));
        this.std_O.copy_(tensor(stds));
        this.count.fill_(oldCount + newCount);
      }),
    );
  }
}

/** Computed in two passes: the difference of two large sums would lose the variance of numbers far from 0. */
function weightedMoments(values_TNO: Float32Array, weights_T: Float64Array, N: number, O: number) {
  const means = new Float64Array(O);
  const variances = new Float64Array(O);
  const total = weights_T.reduce((sum, weight) => sum + weight, 0) * N;
  const addAll = (sums: Float64Array, term: (value: number, o: number) => number) => {
    for (let at = 0, t = 0; t < weights_T.length; t++) {
      const weight = weights_T[t]! / total;
      for (let n = 0; n < N; n++) for (let o = 0; o < O; o++, at++) sums[o]! += weight * term(values_TNO[at]!, o);
    }
  };
  addAll(means, (value) => value);
  addAll(variances, (value, o) => (value - means[o]!) ** 2);
  return { means, variances };
}
