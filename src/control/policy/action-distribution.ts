/**
 * Distributions over actions, parameterized by the outputs of a network: draws, log-probabilities, entropies and KL.
 *
 * Draws are made on the host, from a random stream that is passed in, so that a seed gives the same rollout on every device.
 * Everything with a gradient uses tensors. Nothing here clips an action: log-probabilities are those of the number that was
 * drawn, and enforcing bounds is up to the environment.
 */
import { cat, full } from "../../torch/create.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** A source of random numbers, such as `Random`. */
export interface Draws {
  /** Uniform in [0, 1). */
  uniform(): number;
  /** Normal with mean 0 and deviation 1. */
  normal(): number;
}

/** A distribution over actions. A row has `outputSize` network outputs, and `actionSize` numbers of an action. */
export interface ActionDistribution {
  readonly outputSize: number;
  /** 1 for discrete actions: the index. */
  readonly actionSize: number;
  /** Draws an action per row. Writes it and its log-probability, summed over the numbers of the action. */
  sample(outputs_NP: Float32Array, random: Draws, actions_NA: Float32Array, logprobs_N: Float32Array): void;
  /** Writes the most likely action of every row. */
  mode(outputs_NP: Float32Array, actions_NA: Float32Array): void;
  /** Log-probabilities: [..., P] and [..., A] to [...]. */
  logprobs(outputs: Tensor, actions: Tensor): Tensor;
  /** Entropies in nats: [..., P] to [...]. */
  entropies(outputs: Tensor): Tensor;
  /** A detached copy of everything a row's distribution depends on, for `klFrom` to compare with later. */
  statistics(outputs: Tensor): Tensor;
  /** KL(old || new) per row: the distribution when `statistics` was called against that of these outputs. */
  klFrom(statistics: Tensor, outputs: Tensor): Tensor;
}

const HALF_LOG_TWO_PI = Math.log(2 * Math.PI) / 2;

/** Independent normal distributions. The network gives the means; the log standard deviations are the same for all rows. */
export class DiagonalGaussian extends Module implements ActionDistribution {
  readonly outputSize: number;
  readonly actionSize: number;
  readonly logStd_A: Parameter;

  /** @param options `logStd` is the initial log standard deviation. Default 0. */
  constructor(actionSize: number, { logStd = 0, device = "cpu" }: { logStd?: number; device?: string } = {}) {
    super();
    this.outputSize = actionSize;
    this.actionSize = actionSize;
    this.logStd_A = createParameter([actionSize], (shape, options) => full(shape, logStd, options), { device });
  }

  sample(means_NA: Float32Array, random: Draws, actions_NA: Float32Array, logprobs_N: Float32Array): void {
    const logStds = this.logStd_A.toTypedArray() as Float32Array;
    const A = this.actionSize;
    for (let n = 0; n < logprobs_N.length; n++) {
      let logprob = 0;
      for (let a = 0; a < A; a++) {
        const logStd = logStds[a]!;
        const at = n * A + a;
        actions_NA[at] = means_NA[at]! + Math.exp(logStd) * random.normal();
        // For the number as stored in float32, which is not quite the one that was drawn.
        const gap = (actions_NA[at]! - means_NA[at]!) / Math.exp(logStd);
        logprob -= (gap * gap) / 2 + logStd + HALF_LOG_TWO_PI;
      }
      logprobs_N[n] = logprob;
    }
  }

  mode(means_NA: Float32Array, actions_NA: Float32Array): void {
    actions_NA.set(means_NA);
  }

  logprobs(means: Tensor, actions: Tensor): Tensor {
    const gaps = actions.sub(means).mul(this.logStd_A.neg().exp());
    const density = gaps.square().mul(0.5).add(this.logStd_A);
    return density
      .sum(-1)
      .add(this.actionSize * HALF_LOG_TWO_PI)
      .neg();
  }

  entropies(means: Tensor): Tensor {
    const entropy = this.logStd_A.sum().add(this.actionSize * (HALF_LOG_TWO_PI + 0.5));
    return entropy.expand(...means.shape.slice(0, -1));
  }

  statistics(means: Tensor): Tensor {
    const fixed = means.detach();
    return cat([fixed, this.logStd_A.detach().expand(...fixed.shape)], -1);
  }

  klFrom(statistics: Tensor, means: Tensor): Tensor {
    const A = this.actionSize;
    const oldMeans = statistics.narrow(-1, 0, A);
    const logStdRatio = this.logStd_A.sub(statistics.narrow(-1, A, A));
    const gaps = oldMeans.sub(means).mul(this.logStd_A.neg().exp());
    return logStdRatio.add(logStdRatio.mul(-2).exp().add(gaps.square()).mul(0.5)).sub(0.5).sum(-1);
  }
}

/** A choice among `count` actions. The network gives the logits. */
export class Categorical extends Module implements ActionDistribution {
  readonly outputSize: number;
  readonly actionSize = 1;

  constructor(count: number) {
    super();
    this.outputSize = count;
  }

  sample(logits_NP: Float32Array, random: Draws, actions_NA: Float32Array, logprobs_N: Float32Array): void {
    for (let n = 0; n < logprobs_N.length; n++) {
      const row = logits_NP.subarray(n * this.outputSize, (n + 1) * this.outputSize);
      const largest = largestOf(row);
      let total = 0;
      for (const logit of row) total += Math.exp(logit - largest);
      let left = random.uniform() * total;
      let action = 0;
      for (; action < row.length - 1; action++) {
        left -= Math.exp(row[action]! - largest);
        if (left < 0) break;
      }
      actions_NA[n] = action;
      logprobs_N[n] = row[action]! - largest - Math.log(total);
    }
  }

  mode(logits_NP: Float32Array, actions_NA: Float32Array): void {
    for (let n = 0; n < actions_NA.length; n++) {
      const row = logits_NP.subarray(n * this.outputSize, (n + 1) * this.outputSize);
      actions_NA[n] = row.indexOf(largestOf(row));
    }
  }

  logprobs(logits: Tensor, actions: Tensor): Tensor {
    return logits.logSoftmax(-1).gather(-1, actions.to("int64")).squeeze(-1);
  }

  entropies(logits: Tensor): Tensor {
    const logprobs = logits.logSoftmax(-1);
    return logprobs.exp().mul(logprobs).sum(-1).neg();
  }

  statistics(logits: Tensor): Tensor {
    return logits.detach().logSoftmax(-1);
  }

  klFrom(statistics: Tensor, logits: Tensor): Tensor {
    return statistics
      .exp()
      .mul(statistics.sub(logits.logSoftmax(-1)))
      .sum(-1);
  }
}

function largestOf(row: Float32Array): number {
  let largest = Number.NEGATIVE_INFINITY;
  for (const value of row) if (value > largest) largest = value;
  return largest;
}
