/**
 * A MuJoCo task: a model, and the rules of one copy of it.
 *
 * The whole state of a copy is MuJoCo's state, a few numbers of the task, and a random stream. Rules keep nothing elsewhere, so
 * a copy can be saved and restored exactly. All arithmetic is in double precision.
 */
import type { ActionSpace, ObservationSlice } from "../vec-env.ts";
import type { MujocoCopy } from "./mujoco-copy.ts";
import type { MujocoShape } from "./mujoco-frame.ts";

/** The rules of a task. Functions change only the copy and the array they are given. */
export interface MujocoTask {
  /** The model, in MuJoCo's XML format. */
  readonly model: string;
  /** Steps of the simulation per step of the environment. */
  readonly frameSkip: number;
  /** Steps after which an episode is truncated. */
  readonly maxSteps: number;
  readonly observationSize: number;
  readonly actions: ActionSpace & { readonly kind: "continuous" };
  readonly observationGroups?: Readonly<Record<string, ObservationSlice>>;
  readonly rewardGroups?: readonly string[];
  /** How many numbers the task keeps per copy. */
  readonly memorySize: number;
  /** Writes the first state of an episode. The simulation has just been reset. */
  readonly start: (copy: MujocoCopy) => void;
  /** Makes one step with an action within bounds, and writes the reward: one number, or one per reward group. */
  readonly advance: (copy: MujocoCopy, action: Float64Array, reward: Float64Array) => void;
  readonly hasTerminated: (copy: MujocoCopy) => boolean;
  /** Writes the observation, starting at `offset`. Called once per observed state, since it may draw noise. */
  readonly observe: (copy: MujocoCopy, observations_NO: Float32Array, offset: number) => void;
  /** Marks that pictures show in addition to the shapes of the model. */
  readonly marks?: (copy: MujocoCopy) => readonly MujocoShape[];
}
