/**
 * Actor and critic of control: two networks that share the statistics of what they see, and nothing else.
 *
 * Orthogonal weights with gain sqrt(2), a last layer of gain 0.01 for actions and 1 for values, and biases of 0, as in the
 * reference implementations of PPO (Huang et al. 2022, "The 37 implementation details of PPO").
 */
import type { ActivationName } from "../../torch/nn/activation.ts";
import { initialize } from "../../torch/nn/initialize.ts";
import { MLP } from "../../torch/nn/mlp.ts";
import { Module } from "../../torch/nn/module.ts";
import type { Generator } from "../../torch/random.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type ActionDistribution, Categorical, DiagonalGaussian } from "./action-distribution.ts";
import { ObservationNormalizer } from "./observation-normalizer.ts";

/** The actions of an environment. */
export type ActionSize =
  | { readonly kind: "discrete"; readonly count: number }
  | { readonly kind: "continuous"; readonly size: number };

/** The hidden layers of a network, and where its first weights come from. */
export interface ControlNetworkOptions {
  readonly hidden: readonly number[];
  readonly activation: ActivationName;
  readonly generator: Generator;
}

export interface ControlPolicyOptions extends ControlNetworkOptions {
  readonly observationSize: number;
  readonly actions: ActionSize;
  readonly normalizeObservations: boolean;
  /** First log standard deviation of continuous actions. Default 0. */
  readonly logStd?: number;
}

/** Sees observations through its statistics, and gives what its distribution takes. */
export class ControlPolicy extends Module {
  readonly normalizer: ObservationNormalizer | null;
  readonly body: MLP;
  readonly distribution: ActionDistribution & Module;

  constructor({ observationSize, actions, normalizeObservations, logStd = 0, ...network }: ControlPolicyOptions) {
    super();
    this.normalizer = normalizeObservations ? new ObservationNormalizer(observationSize) : null;
    this.distribution =
      actions.kind === "discrete" ? new Categorical(actions.count) : new DiagonalGaussian(actions.size, { logStd });
    this.body = createBody([observationSize, this.distribution.outputSize], ACTION_GAIN, network);
  }

  /** [..., O] as the environment gave them to [..., O] as the networks take them, the critic's too. */
  see(observations: Tensor): Tensor {
    return this.normalizer === null ? observations : this.normalizer.forward(observations);
  }

  /** [..., O] of `see` to [..., P]. */
  outputs(seen: Tensor): Tensor {
    return this.body.forward(seen);
  }
}

/** The critic: from what the policy sees to a value per reward group. */
export function createCritic(observationSize: number, numValues: number, network: ControlNetworkOptions): MLP {
  return createBody([observationSize, numValues], VALUE_GAIN, network);
}

/** Small, so that the first policy treats all actions alike. */
const ACTION_GAIN = 0.01;
const VALUE_GAIN = 1;

function createBody([inputs, outputs]: [number, number], outputGain: number, network: ControlNetworkOptions): MLP {
  const { hidden, activation, generator } = network;
  return new MLP({
    widths: [inputs, ...hidden, outputs],
    activation,
    generator,
    initialWeight: initialize.orthogonal(Math.SQRT2),
    initialOutputWeight: initialize.orthogonal(outputGain),
    initialBias: initialize.zeros,
  });
}
