/**
 * What a MuJoCo task is: a model, and the rules of one copy of it.
 *
 * A copy's whole state is MuJoCo's, plus a few numbers of the task's own and a random stream; rules keep nothing elsewhere, so a
 * copy can be saved and restored exactly. All arithmetic is in double precision.
 */
import type { ActionSpace, ObservationSlice } from "../vec-env.ts";
import type { MujocoCopy } from "./mujoco-copy.ts";
import type { MujocoShape } from "./mujoco-frame.ts";

/** The rules of a task. All functions change only the copy and the array they are given. */
export interface MujocoTask {
  /** MuJoCo's XML. */
  readonly model: string;
  /** Steps of the simulation per step of the environment. */
  readonly frameSkip: number;
  /** Steps after which an episode is truncated. */
  readonly maxSteps: number;
  readonly observationSize: number;
  readonly actions: ActionSpace & { readonly kind: "continuous" };
  readonly observationGroups?: Readonly<Record<string, ObservationSlice>>;
  readonly rewardGroups?: readonly string[];
  /** How many numbers of its own the task keeps per copy. */
  readonly memorySize: number;
  /** Writes the first state of an episode. The simulation has just been reset. */
  readonly start: (copy: MujocoCopy) => void;
  /** Moves on by one step with an action within bounds, and writes the reward: one number, or one for every group. */
  readonly advance: (copy: MujocoCopy, action: Float64Array, reward: Float64Array) => void;
  readonly hasTerminated: (copy: MujocoCopy) => boolean;
  /** Writes what the agent sees, from `offset` on. Called once for every state that is shown: it may draw noise. */
  readonly observe: (copy: MujocoCopy, observations_NO: Float32Array, offset: number) => void;
  /** What pictures show beside the model's shapes. */
  readonly marks?: (copy: MujocoCopy) => readonly MujocoShape[];
}
