/**
 * Divides rewards by the running standard deviation of the discounted return, and clips them.
 *
 * In: rollouts, in order. Out: their rewards, scaled; the rollout is not changed. As in Gymnasium's NormalizeReward, a tick is
 * scaled by the statistics up to and including it, so the length of a rollout does not matter. As in SB3's VecNormalize, the
 * return starts at 0 after every episode, including those that a time limit ended. All parts of a reward are scaled alike, by
 * the return of their sum.
 */
import type { ControlRollout } from "../control-rollout.ts";

/** The statistics of a normalizer, as plain data. */
export interface RewardNormalizerState {
  readonly mean: number;
  readonly variance: number;
  readonly count: number;
  readonly returns_N: readonly number[];
}

/** Bound on scaled rewards. */
const CLIP = 10;
const EPSILON = 1e-8;

/** Scales the rewards of rollouts, which must come in order. */
export class RewardNormalizer {
  readonly #gamma: number;
  #mean = 0;
  #variance = 1;
  // A small weight for the initial variance of 1, so that the first tick has something to divide by.
  #count = 1e-4;
  #returns_N: Float64Array = new Float64Array(0);

  /** @param gamma the discount of the return */
  constructor(gamma: number) {
    this.#gamma = gamma;
  }

  /** Returns the scaled rewards of the next rollout. */
  normalize(rollout: ControlRollout): Float32Array {
    const { numTicks: T, numEnvs: N, numRewardGroups: G, rewards_TNG, terminated_TN, truncated_TN } = rollout;
    if (this.#returns_N.length === 0) this.#returns_N = new Float64Array(N);
    const scaled_TNG = new Float32Array(rewards_TNG.length);
    for (let t = 0; t < T; t++) {
      for (let n = 0; n < N; n++) {
        let reward = 0;
        for (let g = 0; g < G; g++) reward += rewards_TNG[(t * N + n) * G + g]!;
        this.#returns_N[n] = this.#returns_N[n]! * this.#gamma + reward;
      }
      this.#take(this.#returns_N);
      const scale = 1 / Math.sqrt(this.#variance + EPSILON);
      for (let at = t * N * G; at < (t + 1) * N * G; at++) {
        scaled_TNG[at] = Math.min(Math.max(rewards_TNG[at]! * scale, -CLIP), CLIP);
      }
      for (let n = 0; n < N; n++) {
        if (terminated_TN[t * N + n] !== 0 || truncated_TN[t * N + n] !== 0) this.#returns_N[n] = 0;
      }
    }
    return scaled_TNG;
  }

  state(): RewardNormalizerState {
    return {
      mean: this.#mean,
      variance: this.#variance,
      count: this.#count,
      returns_N: [...this.#returns_N],
    };
  }

  restore({ mean, variance, count, returns_N }: RewardNormalizerState): void {
    this.#mean = mean;
    this.#variance = variance;
    this.#count = count;
    this.#returns_N = Float64Array.from(returns_N);
  }

  /** Merges the moments of some values into the statistics (Chan et al. 1979). */
  #take(values: Float64Array): void {
    const count = values.length;
    let mean = 0;
    for (const value of values) mean += value / count;
    let variance = 0;
    for (const value of values) variance += (value - mean) ** 2 / count;
    const total = this.#count + count;
    const share = count / total;
    const gap = mean - this.#mean;
    this.#mean += gap * share;
    this.#variance = (1 - share) * this.#variance + share * variance + share * (1 - share) * gap ** 2;
    this.#count = total;
  }
}
