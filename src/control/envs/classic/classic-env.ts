/**
 * Classic control tasks as vector environments.
 *
 * In: the name of a task and a number of copies. Out: a `VecEnv`. Copy n draws its starts from its own random stream, derived
 * from the seed and n, so its episodes do not depend on the number of copies.
 */
import { z } from "zod";
import { parseOptions } from "../../../errors/parse-options.ts";
import { RerollError } from "../../../errors/reroll-error.ts";
import { deriveSeed, Random, type RandomState } from "../../../random/random.ts";
import type { VecEnv, VecObservation, VecStep } from "../vec-env.ts";
import { acrobot } from "./acrobot.ts";
import { cartPole } from "./cart-pole.ts";
import type { ControlTask } from "./control-task.ts";
import { mountainCar } from "./mountain-car.ts";
import { pendulum } from "./pendulum.ts";

/** The built-in tasks by name. */
export const controlTasks = {
  acrobot,
  "cart-pole": cartPole,
  "mountain-car": mountainCar,
  pendulum,
} as const satisfies Record<string, ControlTask>;

/** The options of a classic control environment in a run file. */
export const controlEnvOptions = z.strictObject({
  type: z.enum(["acrobot", "cart-pole", "mountain-car", "pendulum"]),
  numEnvs: z.int().positive().default(4).describe("Number of copies that step together."),
  maxSteps: z
    .int()
    .positive()
    .exactOptional()
    .describe("Steps after which an episode is truncated. Default: Gymnasium's limit."),
});

/** Builds a classic control environment from its options. */
export function createControlEnv(options: z.input<typeof controlEnvOptions>): VecEnv {
  const { type, numEnvs, maxSteps } = parseOptions(controlEnvOptions, options, "env");
  const task: ControlTask = controlTasks[type];
  return new ControlEnv(maxSteps === undefined ? task : { ...task, maxSteps }, numEnvs);
}

/** Any task as a vector environment. */
export class ControlEnv implements VecEnv {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly actions: ControlTask["actions"];
  readonly #task: ControlTask;
  readonly #states: readonly Float64Array[];
  readonly #numSteps: Uint32Array;
  readonly #step: VecStep;
  #randoms: readonly Random[] = [];

  constructor(task: ControlTask, numEnvs: number) {
    this.numEnvs = numEnvs;
    this.observationSize = task.observationSize;
    this.actions = task.actions;
    this.#task = task;
    this.#states = Array.from({ length: numEnvs }, () => new Float64Array(task.stateSize));
    this.#numSteps = new Uint32Array(numEnvs);
    this.#step = {
      observations_NO: new Float32Array(numEnvs * task.observationSize),
      rewards_N: new Float32Array(numEnvs),
      terminated_N: new Uint8Array(numEnvs),
      truncated_N: new Uint8Array(numEnvs),
      finalObservations_NO: new Float32Array(numEnvs * task.observationSize),
    };
  }

  reset(seed: number): VecObservation {
    this.#randoms = this.#states.map((_, n) => new Random(deriveSeed(seed, n)));
    for (let n = 0; n < this.numEnvs; n++) this.#begin(n);
    return { observations_NO: this.#step.observations_NO };
  }

  step(actions_NA: Float32Array): VecStep {
    this.#expectActions(actions_NA);
    const { observations_NO, rewards_N, terminated_N, truncated_N, finalObservations_NO } = this.#step;
    const { advance, hasTerminated, observe, maxSteps } = this.#task;
    for (let n = 0; n < this.numEnvs; n++) {
      const state = this.#states[n]!;
      rewards_N[n] = advance(state, actions_NA[n]!);
      this.#numSteps[n]!++;
      terminated_N[n] = hasTerminated(state) ? 1 : 0;
      truncated_N[n] = this.#numSteps[n]! >= maxSteps ? 1 : 0;
      if (terminated_N[n] === 0 && truncated_N[n] === 0) {
        observe(state, observations_NO, n * this.observationSize);
      } else {
        observe(state, finalObservations_NO, n * this.observationSize);
        this.#begin(n);
      }
    }
    return this.#step;
  }

  save(): ControlEnvState {
    return {
      states: this.#states.map((state) => [...state]),
      numSteps: [...this.#numSteps],
      randoms: this.#randoms.map((random) => random.state()),
    };
  }

  restore(saved: unknown): void {
    const { states, numSteps, randoms } = savedState.parse(saved);
    if (states.length !== this.numEnvs) {
      throw new RerollError(
        "STATE_MISMATCH",
        `The saved state has ${states.length} environments, there are ${this.numEnvs}. Both must be the same.`,
      );
    }
    this.#randoms = randoms.map((state) => new Random(state));
    this.#numSteps.set(numSteps);
    for (const [n, state] of this.#states.entries()) {
      state.set(states[n]!);
      this.#task.observe(state, this.#step.observations_NO, n * this.observationSize);
    }
  }

  #begin(n: number): void {
    const state = this.#states[n]!;
    this.#task.start(state, this.#randoms[n]!);
    this.#numSteps[n] = 0;
    this.#task.observe(state, this.#step.observations_NO, n * this.observationSize);
  }

  #expectActions(actions_NA: Float32Array): void {
    if (this.#randoms.length === 0) {
      throw new RerollError("NOT_RESET", "A vector environment was stepped before its first reset. Call reset(seed).");
    }
    if (actions_NA.length !== this.numEnvs) {
      throw new RerollError(
        "SHAPE_MISMATCH",
        `step got ${actions_NA.length} actions for ${this.numEnvs} environments. Give one action per environment.`,
        { numActions: actions_NA.length, numEnvs: this.numEnvs },
      );
    }
    for (let n = 0; n < actions_NA.length; n++)
      if (!this.#isAction(actions_NA[n]!)) throw this.#badAction(n, actions_NA[n]!);
  }

  /** Tasks clip continuous actions to their bounds, as Gymnasium does. An action that is not a number is refused. */
  #isAction(action: number): boolean {
    const { actions } = this;
    if (actions.kind === "continuous") return Number.isFinite(action);
    return Number.isInteger(action) && action >= 0 && action < actions.count;
  }

  #badAction(n: number, action: number): RerollError {
    const { actions } = this;
    const allowed = actions.kind === "continuous" ? "a finite number" : `a whole number from 0 to ${actions.count - 1}`;
    return new RerollError("INVALID_ACTION", `Environment ${n} got the action ${action}. It must be ${allowed}.`, {
      env: n,
      action,
    });
  }
}

/** The saved form of a ControlEnv: the state of every copy, its steps so far, and its random stream. */
interface ControlEnvState {
  readonly states: readonly (readonly number[])[];
  readonly numSteps: readonly number[];
  readonly randoms: readonly RandomState[];
}

const savedState = z.object({
  states: z.array(z.array(z.number())),
  numSteps: z.array(z.number()),
  randoms: z.array(z.tuple([z.number(), z.number(), z.number(), z.number()])),
});
