/**
 * What a control task is: the equations of motion of one copy, on a state that is changed in place.
 *
 * Constants and equations are those of Gymnasium's classic control environments, in double precision.
 */
import type { Random } from "../../../random/random.ts";
import type { ActionSpace } from "../vec-env.ts";

/** One copy of a task. All functions are pure but for the state and array they are given. */
export interface ControlTask {
  readonly stateSize: number;
  readonly observationSize: number;
  readonly actions: ActionSpace;
  /** Steps after which an episode is truncated. */
  readonly maxSteps: number;
  /** Writes the first state of an episode. */
  readonly start: (state: Float64Array, random: Random) => void;
  /** Moves the state on by one step and returns the reward. */
  readonly advance: (state: Float64Array, action: number) => number;
  readonly hasTerminated: (state: Float64Array) => boolean;
  /** Writes what the agent sees, from `offset` on. */
  readonly observe: (state: Float64Array, observations_NO: Float32Array, offset: number) => void;
}

/** Uniform between two bounds. */
export function between(random: Random, low: number, high: number): number {
  return low + (high - low) * random.uniform();
}

/** The value, or the bound that it is beyond. */
export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
