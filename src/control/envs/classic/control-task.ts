/**
 * A control task: the equations of motion of one copy, on a state that is changed in place.
 *
 * Constants and equations are those of Gymnasium's classic control environments, in double precision.
 */
import type { Random } from "../../../random/random.ts";
import type { ActionSpace } from "../vec-env.ts";

/** The rules of a task. Functions change only the state and the array they are given. */
export interface ControlTask {
  readonly stateSize: number;
  readonly observationSize: number;
  readonly actions: ActionSpace;
  /** Steps after which an episode is truncated. */
  readonly maxSteps: number;
  /** Writes the first state of an episode. */
  readonly start: (state: Float64Array, random: Random) => void;
  /** Advances the state by one step and returns the reward. */
  readonly advance: (state: Float64Array, action: number) => number;
  readonly hasTerminated: (state: Float64Array) => boolean;
  /** Writes the observation, starting at `offset`. */
  readonly observe: (state: Float64Array, observations_NO: Float32Array, offset: number) => void;
}

/** A uniform draw between two bounds. */
export function between(random: Random, low: number, high: number): number {
  return low + (high - low) * random.uniform();
}

/** The value, clipped to the bounds. */
export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
