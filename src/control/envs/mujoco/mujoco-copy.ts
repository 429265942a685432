/**
 * One copy of a simulation: MuJoCo's data, the task's own numbers, and a random stream. Copies share one model.
 *
 * MuJoCo's memory may move whenever something is allocated, and all arrays that view it are then empty. Nothing keeps such an
 * array across steps: `views()` returns them, and fetches them again if they have gone.
 */
import { Random, type RandomState } from "../../../random/random.ts";
import type { MjData, MjModel, Mujoco } from "./load-mujoco.ts";
import { type MujocoShape, readShapes } from "./mujoco-frame.ts";

/** Views of MuJoCo's memory. Writing to them changes the simulation. */
interface MujocoViews {
  readonly positions: Float64Array;
  readonly velocities: Float64Array;
  readonly controls: Float64Array;
  /** Forces on the joints in addition to the motors'. They stay until they are changed. */
  readonly jointForces: Float64Array;
  /** Part of the model, which all copies share: a task that changes it does so before every step. */
  readonly bodyMasses: Float64Array;
  readonly jointDampings: Float64Array;
}

/** A copy as plain data. */
export interface SavedCopy {
  /** Everything that MuJoCo's next step depends on. */
  readonly state: readonly number[];
  readonly memory: readonly number[];
  readonly random: RandomState;
  readonly numSteps: number;
}

/** One copy of a simulation. */
export class MujocoCopy {
  /** The task's own numbers. */
  readonly memory: Float64Array;
  random = new Random(0);
  /** Steps since the episode began. */
  numSteps = 0;
  readonly #mujoco: Mujoco;
  readonly #model: MjModel;
  readonly #data: MjData;
  readonly #frameSkip: number;
  #views: MujocoViews;

  constructor(mujoco: Mujoco, model: MjModel, frameSkip: number, memorySize: number) {
    this.memory = new Float64Array(memorySize);
    this.#mujoco = mujoco;
    this.#model = model;
    this.#data = new mujoco.MjData(model);
    this.#frameSkip = frameSkip;
    this.#views = this.#fetchViews();
  }

  views(): MujocoViews {
    if (this.#views.positions.length === 0) this.#views = this.#fetchViews();
    return this.#views;
  }

  /** Resets the simulation to the initial state of the model, at rest. */
  reset(): void {
    this.#mujoco.mj_resetData(this.#model, this.#data);
    this.memory.fill(0);
    this.numSteps = 0;
  }

  /** Computes the quantities that follow from positions and velocities. After a reset the solver starts from them. */
  forward(): void {
    this.#mujoco.mj_forward(this.#model, this.#data);
  }

  /** Makes one step of the environment, which is `frameSkip` steps of the simulation. */
  step(): void {
    for (let frame = 0; frame < this.#frameSkip; frame++) this.#mujoco.mj_step(this.#model, this.#data);
  }

  save(): SavedCopy {
    const { mjSTATE_INTEGRATION } = this.#mujoco.mjtState;
    const buffer = new this.#mujoco.DoubleBuffer(this.#mujoco.mj_stateSize(this.#model, mjSTATE_INTEGRATION.value));
    this.#mujoco.mj_getState(this.#model, this.#data, buffer, mjSTATE_INTEGRATION.value);
    const state: number[] = Array.from(buffer.GetView());
    buffer.delete();
    return { state, memory: [...this.memory], random: this.random.state(), numSteps: this.numSteps };
  }

  restore({ state, memory, random, numSteps }: SavedCopy): void {
    this.#mujoco.mj_setState(this.#model, this.#data, [...state], this.#mujoco.mjtState.mjSTATE_INTEGRATION.value);
    this.memory.set(memory);
    this.random = new Random(random);
    this.numSteps = numSteps;
  }

  /** The shapes as they are now. */
  shapes(): MujocoShape[] {
    return readShapes(this.#mujoco, this.#model, this.#data);
  }

  /** Frees MuJoCo's memory. */
  close(): void {
    this.#data.delete();
  }

  #fetchViews(): MujocoViews {
    return {
      positions: this.#data.qpos,
      velocities: this.#data.qvel,
      controls: this.#data.ctrl,
      jointForces: this.#data.qfrc_applied,
      bodyMasses: this.#model.body_mass,
      jointDampings: this.#model.dof_damping,
    };
  }
}
