/**
 * MuJoCo tasks as vector environments, all copies in this thread.
 *
 * In: a task and arrays for the results. Out: a `VecEnv`. Copy n draws from its own random stream, derived from the seed and n,
 * so its episodes depend neither on the number of copies nor on the thread it runs in. Actions beyond the bounds are clipped,
 * as Gymnasium's `ClipAction` does.
 */
import { z } from "zod";
import { RerollError } from "../../../errors/reroll-error.ts";
import { deriveSeed, Random } from "../../../random/random.ts";
import { clamp } from "../classic/control-task.ts";
import type { VecEnv, VecObservation, VecStep } from "../vec-env.ts";
import type { MjModel, Mujoco } from "./load-mujoco.ts";
import { MujocoCopy, type SavedCopy } from "./mujoco-copy.ts";
import type { MujocoFrame } from "./mujoco-frame.ts";
import type { MujocoTask } from "./mujoco-task.ts";

const savedCopies = z.array(
  z.object({
    state: z.array(z.number()),
    memory: z.array(z.number()),
    random: z.tuple([z.number(), z.number(), z.number(), z.number()]),
    numSteps: z.int(),
  }),
);

/** The numbering of the copies, and the arrays they write to. */
interface MujocoPlace {
  readonly numEnvs: number;
  /** The number of its first copy. Default 0. */
  readonly firstEnv?: number;
  /** Arrays for the results of these copies. Default: new ones. */
  readonly step?: VecStep;
}

/** A vector environment of MuJoCo copies in this thread. `close` frees MuJoCo's memory. */
export class MujocoEnv implements VecEnv {
  readonly numEnvs: number;
  readonly observationSize: number;
  readonly actions: MujocoTask["actions"];
  declare readonly observationGroups?: NonNullable<VecEnv["observationGroups"]>;
  declare readonly rewardGroups?: readonly string[];
  readonly #task: MujocoTask;
  readonly #model: MjModel;
  readonly #copies: readonly MujocoCopy[];
  readonly #firstEnv: number;
  readonly #step: VecStep;
  readonly #action: Float64Array;
  readonly #reward: Float64Array;
  #isRunning = false;

  constructor(mujoco: Mujoco, task: MujocoTask, { numEnvs, firstEnv = 0, step }: MujocoPlace) {
    this.numEnvs = numEnvs;
    this.observationSize = task.observationSize;
    this.actions = task.actions;
    if (task.observationGroups !== undefined) this.observationGroups = task.observationGroups;
    if (task.rewardGroups !== undefined) this.rewardGroups = task.rewardGroups;
    this.#task = task;
    this.#model = mujoco.MjModel.from_xml_string(task.model);
    this.#copies = Array.from(
      { length: numEnvs },
      () => new MujocoCopy(mujoco, this.#model, task.frameSkip, task.memorySize),
    );
    this.#firstEnv = firstEnv;
    this.#step = step ?? createVecStep(task, numEnvs);
    this.#action = new Float64Array(task.actions.size);
    this.#reward = new Float64Array(task.rewardGroups?.length ?? 1);
  }

  reset(seed: number): VecObservation {
    this.#isRunning = true;
    this.#copies.forEach((copy, n) => {
      copy.random = new Random(deriveSeed(seed, this.#firstEnv + n));
      this.#begin(copy, n);
    });
    return this.#step;
  }

  step(actions_NA: Float32Array): VecStep {
    if (!this.#isRunning) throw notReset();
    expectActions(actions_NA, this.numEnvs, this.actions.size);
    const { terminated_N, truncated_N, observations_NO, finalObservations_NO } = this.#step;
    this.#copies.forEach((copy, n) => {
      this.#takeAction(actions_NA, n);
      this.#task.advance(copy, this.#action, this.#reward);
      this.#writeReward(n);
      copy.numSteps++;
      terminated_N[n] = this.#task.hasTerminated(copy) ? 1 : 0;
      truncated_N[n] = copy.numSteps >= this.#task.maxSteps ? 1 : 0;
      const hasEnded = terminated_N[n] === 1 || truncated_N[n] === 1;
      this.#task.observe(copy, hasEnded ? finalObservations_NO : observations_NO, n * this.observationSize);
      if (hasEnded) this.#begin(copy, n);
    });
    return this.#step;
  }

  save(): SavedCopy[] {
    return this.#copies.map((copy) => copy.save());
  }

  restore(saved: unknown): void {
    this.#isRunning = true;
    readSaved(saved, this.numEnvs).forEach((copy, n) => {
      this.#copies[n]!.restore(copy);
    });
  }

  /** The shapes of copy n as they are now. */
  frame(n: number): MujocoFrame {
    const copy = this.#copies[n];
    if (copy === undefined) {
      throw new RerollError(
        "INVALID_ARGUMENT",
        `frame got environment ${n}. It must be one of 0 to ${this.numEnvs - 1}.`,
      );
    }
    return { shapes: [...copy.shapes(), ...(this.#task.marks?.(copy) ?? [])] };
  }

  /** Frees MuJoCo's memory. */
  async close(): Promise<void> {
    if (this.#model.isDeleted()) return;
    for (const copy of this.#copies) copy.close();
    this.#model.delete();
  }

  #begin(copy: MujocoCopy, n: number): void {
    copy.reset();
    this.#task.start(copy);
    copy.forward();
    this.#task.observe(copy, this.#step.observations_NO, n * this.observationSize);
  }

  #takeAction(actions_NA: Float32Array, n: number): void {
    const { size, low, high } = this.actions;
    for (let i = 0; i < size; i++) this.#action[i] = clamp(actions_NA[n * size + i]!, low, high);
  }

  #writeReward(n: number): void {
    const { rewards_N, rewardParts_NG } = this.#step;
    rewards_N[n] = this.#reward.reduce((sum, part) => sum + part, 0);
    rewardParts_NG?.set(this.#reward, n * this.#reward.length);
  }
}

/** Checks what `restore` was given. */
export function readSaved(saved: unknown, numEnvs: number): SavedCopy[] {
  const copies = savedCopies.parse(saved);
  if (copies.length === numEnvs) return copies;
  throw new RerollError(
    "STATE_MISMATCH",
    `The saved state has ${copies.length} environments, there are ${numEnvs}. Set numEnvs to ${copies.length}.`,
    { saved: copies.length, numEnvs },
  );
}

/** The error of a step before the first reset. */
export function notReset(): RerollError {
  return new RerollError("NOT_RESET", "A vector environment was stepped before its first reset. Call reset(seed).");
}

/** Refuses a wrong number of actions, and actions that are not numbers. */
export function expectActions(actions_NA: Float32Array, numEnvs: number, size: number): void {
  if (actions_NA.length !== numEnvs * size) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `step got ${actions_NA.length} numbers for ${numEnvs} environments of ${size} motors. Give ${numEnvs * size}.`,
      { numActions: actions_NA.length, numEnvs, size },
    );
  }
  const place = actions_NA.findIndex((value) => !Number.isFinite(value));
  if (place === -1) return;
  const env = Math.floor(place / size);
  const action = actions_NA[place];
  throw new RerollError("INVALID_ACTION", `Environment ${env} got the action ${action}. It must be a finite number.`, {
    env,
    action,
  });
}

/** Arrays for the results of `numEnvs` copies, in memory of their own or in shared memory. */
export function createVecStep(
  { observationSize, rewardGroups }: Pick<MujocoTask, "observationSize" | "rewardGroups">,
  numEnvs: number,
  memory: new (numBytes: number) => ArrayBufferLike = ArrayBuffer,
): VecStep {
  const floats = (count: number) => new Float32Array(new memory(4 * count));
  return {
    observations_NO: floats(numEnvs * observationSize),
    rewards_N: floats(numEnvs),
    ...(rewardGroups === undefined ? {} : { rewardParts_NG: floats(numEnvs * rewardGroups.length) }),
    terminated_N: new Uint8Array(new memory(numEnvs)),
    truncated_N: new Uint8Array(new memory(numEnvs)),
    finalObservations_NO: floats(numEnvs * observationSize),
  };
}
