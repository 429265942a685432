/**
 * Lets the teacher or the student act, by the rules of a phase.
 *
 * In: observations of N environments. Out: actions with their log-probabilities. The memory of the adapt module is kept up to
 * date in every phase, so that training finds what the student would have remembered. Never changes a weight.
 */

import { Random, type RandomState } from "../../random/random.ts";
import { tensor } from "../../torch/create.ts";
import type { ControlActor } from "../collector/collector.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { type AdaptationPhase, phaseRules } from "./policy/phases.ts";

/** The phase, the environments, and how actions are chosen. */
interface AdaptationActorOptions {
  readonly phase: AdaptationPhase;
  readonly numEnvs: number;
  readonly seed: number;
  /** Default "sample". "mode" takes the means, for evaluation; log-probabilities are then 0. */
  readonly choice?: "sample" | "mode";
}

/** Everything beside the weights that the next actions depend on. */
interface ActorState {
  readonly random: RandomState;
  readonly carry_NC: readonly number[];
}

/** Serves one vector environment, and keeps the memory of each of its copies. */
export class AdaptationActor implements ControlActor {
  readonly carrySize: number;
  readonly #policy: AdaptationPolicy;
  readonly #choice: "sample" | "mode";
  readonly #actions_NA: Float32Array;
  readonly #logprobs_N: Float32Array;
  #phase: AdaptationPhase;
  #random: Random;
  #carry_NC: Float32Array;

  constructor(policy: AdaptationPolicy, options: AdaptationActorOptions) {
    const { phase, numEnvs, seed, choice = "sample" } = options;
    this.#policy = policy;
    this.#phase = phase;
    this.#choice = choice;
    this.#random = new Random(seed);
    this.carrySize = policy.adaptModule.carrySize;
    this.#carry_NC = new Float32Array(numEnvs * this.carrySize);
    this.#actions_NA = new Float32Array(numEnvs * policy.actionSize);
    this.#logprobs_N = new Float32Array(numEnvs);
  }

  /** Acts by the rules of this phase from the next tick on. Episodes and memory continue. */
  enter(phase: AdaptationPhase): void {
    this.#phase = phase;
  }

  act(observations_NO: Float32Array, isFirst_N: Uint8Array): { actions_NA: Float32Array; logprobs_N: Float32Array } {
    const { acts, latentFrom, remembers } = phaseRules[this.#phase];
    const policy = this.#policy;
    const N = isFirst_N.length;
    const observations_1NO = policy.normalizer.forward(tensor(observations_NO, [1, N, observations_NO.length / N]));
    const isFirst_1N = tensor(isFirst_N, [1, N]).ne(0);
    const needsPrediction = latentFrom !== "encoderPriv" || this.carrySize > 0;
    const predicted = needsPrediction
      ? policy.predict(remembers, observations_1NO, isFirst_1N, tensor(this.#carry_NC, [N, this.carrySize]))
      : null;
    if (predicted !== null) this.#carry_NC = predicted.carry_NC.toFloat32Array();
    const latents_1NZ =
      latentFrom === "encoderPriv" || predicted === null ? policy.encode(observations_1NO) : predicted.latents_TNZ;
    const means_NA = policy.means(acts, observations_1NO, latents_1NZ).toFloat32Array();
    const { distribution } = policy[acts];
    if (this.#choice === "mode") distribution.mode(means_NA, this.#actions_NA);
    else distribution.sample(means_NA, this.#random, this.#actions_NA, this.#logprobs_N);
    return { actions_NA: this.#actions_NA, logprobs_N: this.#logprobs_N };
  }

  carry_NC(): Float32Array {
    return this.#carry_NC;
  }

  save(): ActorState {
    return { random: this.#random.state(), carry_NC: [...this.#carry_NC] };
  }

  restore(saved: unknown): void {
    const { random, carry_NC } = saved as ActorState;
    this.#random = new Random(random);
    this.#carry_NC = Float32Array.from(carry_NC);
  }
}
