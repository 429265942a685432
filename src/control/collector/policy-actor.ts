/** An actor without memory that samples from a ControlPolicy, or takes its most likely action. */

import { Random, type RandomState } from "../../random/random.ts";
import { zeros } from "../../torch/create.ts";
import { keep } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlPolicy } from "../policy/control-policy.ts";
import type { ControlActor } from "./collector.ts";

/** The environments it acts in, and how it chooses actions. */
export interface PolicyActorOptions {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly seed: number;
  /** Default "sample". "mode" is for evaluation; log-probabilities are then 0. */
  readonly choice?: "sample" | "mode";
}

/** Acts with the current weights of a policy, which a trainer may change between rollouts. */
export class PolicyActor implements ControlActor {
  readonly carrySize = 0;
  readonly #policy: ControlPolicy;
  readonly #choice: "sample" | "mode";
  readonly #input_NO: Tensor;
  readonly #actions_NA: Float32Array;
  readonly #logprobs_N: Float32Array;
  #random: Random;

  constructor(policy: ControlPolicy, { numEnvs, observationSize, seed, choice = "sample" }: PolicyActorOptions) {
    this.#policy = policy;
    this.#choice = choice;
    this.#input_NO = keep(zeros([numEnvs, observationSize]));
    this.#actions_NA = new Float32Array(numEnvs * policy.distribution.actionSize);
    this.#logprobs_N = new Float32Array(numEnvs);
    this.#random = new Random(seed);
  }

  act(observations_NO: Float32Array): { actions_NA: Float32Array; logprobs_N: Float32Array } {
    const policy = this.#policy;
    const { distribution } = policy;
    const seen_NO = policy.see(this.#input_NO.writeFrom(observations_NO));
    const outputs_NP = policy.outputs(seen_NO).toTypedArray() as Float32Array;
    if (this.#choice === "mode") distribution.mode(outputs_NP, this.#actions_NA);
    else distribution.sample(outputs_NP, this.#random, this.#actions_NA, this.#logprobs_N);
    return { actions_NA: this.#actions_NA, logprobs_N: this.#logprobs_N };
  }

  carry_NC(): Float32Array {
    return new Float32Array(0);
  }

  save(): RandomState {
    return this.#random.state();
  }

  restore(saved: unknown): void {
    this.#random = new Random(saved as RandomState);
  }
}
