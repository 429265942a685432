/**
 * Lets a frozen policy act in vector environments.
 *
 * In: environments, an actor, and a number of ticks. Out: a `ControlRollout` of everything that happened. Episodes continue
 * from one call to the next: observations, ticks and the actor's memory are carried over. Nothing here changes weights. The
 * output of the environments is checked at every tick.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { ControlEpisode, ControlRollout } from "../control-rollout.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { expectObservations, expectVecStep } from "./expect-vec-step.ts";

/** Chooses actions. Called without gradients and in a memory scope; the arrays it returns are read at once. */
export interface ControlActor {
  /** Size of the memory per environment; 0 for a policy without memory. */
  readonly carrySize: number;
  /** @param isFirst_N 1 where an episode begins: the memory of the one before must not be used there */
  act(observations_NO: Float32Array, isFirst_N: Uint8Array): { actions_NA: Float32Array; logprobs_N: Float32Array };
  /** The memory that the next call of `act` starts from. */
  carry_NC(): Float32Array;
  /** Everything beside the weights that the next actions depend on, as plain data: memory and random stream. */
  save(): unknown;
  /** Puts the actor back into the state that `save` returned. */
  restore(saved: unknown): void;
}

/** The state of a collector, as plain data. */
export interface CollectorState {
  readonly env: unknown;
  readonly actor: unknown;
  readonly observations_NO: readonly number[];
  readonly episodeTicks_N: readonly number[];
  readonly episodeReturns_N: readonly number[];
}

/** Collects one rollout after another. An episode that is under way when a rollout ends continues in the next. */
export class ControlCollector {
  readonly #env: VecEnv;
  readonly #actor: ControlActor;
  readonly #observations_NO: Float32Array;
  readonly #episodeTicks_N: Uint32Array;
  readonly #episodeReturns_N: Float64Array;
  readonly #isFirst_N: Uint8Array;

  /** Starts the environments. */
  constructor(env: VecEnv, actor: ControlActor, { seed }: { readonly seed: number }) {
    this.#env = env;
    this.#actor = actor;
    const { observations_NO } = env.reset(deriveSeed(seed, "episodes"));
    expectObservations(env, observations_NO);
    this.#observations_NO = Float32Array.from(observations_NO);
    this.#episodeTicks_N = new Uint32Array(env.numEnvs);
    this.#episodeReturns_N = new Float64Array(env.numEnvs);
    this.#isFirst_N = new Uint8Array(env.numEnvs);
  }

  /** @param version the version of the weights that the actor acts with */
  collect(numTicks: number, version: number): ControlRollout {
    return noGrad(() => this.#collect(numTicks, version));
  }

  /** Returns null if the environments cannot be saved. */
  save(): CollectorState | null {
    if (this.#env.save === undefined) return null;
    return {
      env: this.#env.save(),
      actor: this.#actor.save(),
      observations_NO: [...this.#observations_NO],
      episodeTicks_N: [...this.#episodeTicks_N],
      episodeReturns_N: [...this.#episodeReturns_N],
    };
  }

  /** Continues exactly as the collector that was saved would have. */
  restore(saved: CollectorState): void {
    if (this.#env.restore === undefined) {
      throw new RerollError("NOT_RESTORABLE", "These environments cannot be put back to a saved state: no restore().");
    }
    this.#env.restore(saved.env);
    this.#actor.restore(saved.actor);
    this.#observations_NO.set(saved.observations_NO);
    this.#episodeTicks_N.set(saved.episodeTicks_N);
    this.#episodeReturns_N.set(saved.episodeReturns_N);
  }

  #collect(T: number, version: number): ControlRollout {
    const { numEnvs: N, observationSize: O, actions, rewardGroups } = this.#env;
    const A = actions.kind === "discrete" ? 1 : actions.size;
    const G = rewardGroups?.length ?? 1;
    const observations_TNO = new Float32Array(T * N * O);
    const actions_TNA = new Float32Array(T * N * A);
    const samplerLogprobs_TN = new Float32Array(T * N);
    const rewards_TNG = new Float32Array(T * N * G);
    const terminated_TN = new Uint8Array(T * N);
    const truncated_TN = new Uint8Array(T * N);
    const episodeTicks_TN = new Uint32Array(T * N);
    const carry_NC = Float32Array.from(this.#actor.carry_NC());
    const finalPlaces: number[] = [];
    const finalObservations: Float32Array[] = [];
    const episodes: ControlEpisode[] = [];

    for (let t = 0; t < T; t++) {
      observations_TNO.set(this.#observations_NO, t * N * O);
      episodeTicks_TN.set(this.#episodeTicks_N, t * N);
      const { actions_NA, logprobs_N } = this.#act();
      actions_TNA.set(actions_NA, t * N * A);
      samplerLogprobs_TN.set(logprobs_N, t * N);
      const step = this.#env.step(actions_NA);
      expectVecStep(this.#env, step);
      rewards_TNG.set(rewardGroups === undefined ? step.rewards_N : step.rewardParts_NG!, t * N * G);
      terminated_TN.set(step.terminated_N, t * N);
      truncated_TN.set(step.truncated_N, t * N);
      this.#observations_NO.set(step.observations_NO);
      for (let n = 0; n < N; n++) {
        this.#episodeReturns_N[n]! += step.rewards_N[n]!;
        this.#episodeTicks_N[n]!++;
        if (step.terminated_N[n] === 0 && step.truncated_N[n] === 0) continue;
        if (step.terminated_N[n] === 0) {
          finalPlaces.push(t * N + n);
          finalObservations.push(step.finalObservations_NO.slice(n * O, (n + 1) * O));
        }
        episodes.push({ env: n, return: this.#episodeReturns_N[n]!, length: this.#episodeTicks_N[n]! });
        this.#episodeReturns_N[n] = 0;
        this.#episodeTicks_N[n] = 0;
      }
    }
    return {
      numTicks: T,
      numEnvs: N,
      version,
      observationSize: O,
      actionSize: A,
      observations_TNO,
      actions_TNA,
      samplerLogprobs_TN,
      rewards_TNG,
      numRewardGroups: G,
      terminated_TN,
      truncated_TN,
      episodeTicks_TN,
      finalPlaces,
      finalObservations_FO: joinRows(finalObservations, O),
      lastObservations_NO: this.#observations_NO.slice(),
      lastEpisodeTicks_N: this.#episodeTicks_N.slice(),
      carry_NC,
      episodes,
    };
  }

  #act(): { readonly actions_NA: Float32Array; readonly logprobs_N: Float32Array } {
    for (let n = 0; n < this.#isFirst_N.length; n++) this.#isFirst_N[n] = this.#episodeTicks_N[n] === 0 ? 1 : 0;
    return tensorScope(() => this.#actor.act(this.#observations_NO, this.#isFirst_N));
  }
}

function joinRows(rows: readonly Float32Array[], size: number): Float32Array {
  const joined = new Float32Array(rows.length * size);
  for (const [i, row] of rows.entries()) joined.set(row, i * size);
  return joined;
}
