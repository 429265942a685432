/**
 * Actor and critic of control: two networks that share the statistics observations are normalized with, and nothing else.
 *
 * Weights are orthogonal with gain sqrt(2), except for a gain of 0.01 in the last layer of the actor and 1 in that of the critic;
 * biases are 0. So do the reference implementations of PPO (Huang et al. 2022, "The 37 implementation details of PPO").
 */
import { z } from "zod";
import { type ActivationName, activations } from "../../torch/nn/activation.ts";
import { initialize } from "../../torch/nn/initialize.ts";
import { MLP } from "../../torch/nn/mlp.ts";
import { Module } from "../../torch/nn/module.ts";
import { Generator } from "../../torch/random.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type ActionDistribution, Categorical, DiagonalGaussian } from "./action-distribution.ts";
import { ObservationNormalizer } from "./observation-normalizer.ts";
import { loadPolicy, type PolicyKind, savePolicy } from "./policy-files.ts";

/** The actions of an environment. */
export type ActionSize =
  | { readonly kind: "discrete"; readonly count: number }
  | { readonly kind: "continuous"; readonly size: number };

/** The hidden layers of a network, and the source of its first weights. */
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

/** Normalizes observations and maps them to the parameters of an action distribution. */
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

  /** Observations of the environment, [..., O], as both networks take them. */
  see(observations: Tensor): Tensor {
    return this.normalizer === null ? observations : this.normalizer.forward(observations);
  }

  /** Parameters of the action distribution, [..., P], for observations that went through `see`. */
  outputs(seen: Tensor): Tensor {
    return this.body.forward(seen);
  }
}

/** A critic that gives one value per reward group, for observations that went through the policy's `see`. */
export function createCritic(observationSize: number, numValues: number, network: ControlNetworkOptions): MLP {
  return createBody([observationSize, numValues], VALUE_GAIN, network);
}

/** Small, so that the first policy is close to uniform. */
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

const shapeOptions = z.strictObject({
  observationSize: z.int().positive(),
  actions: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("discrete"), count: z.int().positive() }),
    z.strictObject({ kind: z.literal("continuous"), size: z.int().positive() }),
  ]),
  hidden: z.array(z.int().positive()),
  activation: z.enum(Object.keys(activations) as [ActivationName]),
  normalizeObservations: z.boolean(),
});

/** All that is needed to build a policy into which saved weights fit. */
export type ControlPolicyShape = z.output<typeof shapeOptions>;

/** How control policies are kept in files. */
export const controlPolicyKind: PolicyKind<ControlPolicyShape, ControlPolicy> = {
  name: "a control policy",
  shape: shapeOptions,
  build: (shape) => {
    const generator = new Generator(0);
    const policy = new ControlPolicy({ ...shape, generator });
    generator.dispose();
    return policy;
  },
};

/** Writes a policy into a folder, which is created if it is missing. */
export function saveControlPolicy(policy: ControlPolicy, shape: ControlPolicyShape, folder: string): void {
  savePolicy(policy, shape, folder);
}

/** Builds the policy that was saved in a folder, such as `model/` of a checkpoint. */
export function loadControlPolicy(folder: string): {
  readonly policy: ControlPolicy;
  readonly shape: ControlPolicyShape;
} {
  return loadPolicy(controlPolicyKind, folder);
}
