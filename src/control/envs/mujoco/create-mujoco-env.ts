/**
 * MuJoCo environments as run files name them.
 *
 * In: options. Out: a `VecEnv` with all copies in this thread, or spread over worker threads. Results are the same either way.
 * MuJoCo is loaded by the first call.
 */
import { z } from "zod";
import { parseOptions } from "../../../errors/parse-options.ts";
import { invertedPendulum } from "./inverted-pendulum.ts";
import { loadMujoco } from "./load-mujoco.ts";
import { MujocoEnv } from "./mujoco-env.ts";
import { type MujocoPool, openMujocoPool } from "./mujoco-pool.ts";
import type { MujocoTask } from "./mujoco-task.ts";
import { createPush, pushOptions } from "./push.ts";
import { halfCheetah, hopper, walker2d } from "./runner.ts";

/** Gymnasium's tasks by name. */
export const gymnasiumTasks = {
  "half-cheetah": halfCheetah,
  hopper,
  walker2d,
  "inverted-pendulum": invertedPendulum,
} as const satisfies Record<string, MujocoTask>;

const shared = {
  numEnvs: z.int().positive().default(4).describe("Copies that step together."),
  numThreads: z
    .int()
    .min(0)
    .default(0)
    .describe("Worker threads that the copies are spread over. 0: they step in the thread that calls."),
  maxSteps: z.int().positive().exactOptional().describe("Steps of an episode, in place of the task's own limit."),
};

/** A MuJoCo environment as run files name it. */
export const mujocoEnvOptions = z.discriminatedUnion("type", [
  z.strictObject({ type: z.enum(["half-cheetah", "hopper", "walker2d", "inverted-pendulum"]), ...shared }),
  pushOptions.extend({ type: z.literal("push"), ...shared }),
]);

/** The options, resolved. */
export type MujocoOptions = z.output<typeof mujocoEnvOptions>;

/** Builds one from a run file's options. */
export async function createMujocoEnv(options: z.input<typeof mujocoEnvOptions>): Promise<MujocoEnv | MujocoPool> {
  const parsed = parseOptions(mujocoEnvOptions, options, "env");
  const { numEnvs, numThreads } = parsed;
  const task = buildTask(parsed);
  if (numThreads > 0) return openMujocoPool(parsed, task, { numEnvs, numThreads });
  return new MujocoEnv(await loadMujoco(), task, { numEnvs });
}

/** The rules that options name. */
export function buildTask(options: MujocoOptions): MujocoTask {
  const task: MujocoTask = options.type === "push" ? createPush(options) : gymnasiumTasks[options.type];
  return options.maxSteps === undefined ? task : { ...task, maxSteps: options.maxSteps };
}
