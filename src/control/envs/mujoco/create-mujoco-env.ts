/**
 * MuJoCo environments by name.
 *
 * In: options. Out: a `VecEnv` with all copies in this thread, or spread over worker threads; results are the same either way.
 * The first call loads MuJoCo.
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
  numEnvs: z.int().positive().default(4).describe("Number of copies that step together."),
  numThreads: z
    .int()
    .min(0)
    .default(0)
    .describe("Worker threads that the copies are spread over. 0: all copies step in the calling thread."),
  maxSteps: z
    .int()
    .positive()
    .exactOptional()
    .describe("Steps after which an episode is truncated. Default: the limit of the task."),
};

/** The options of a MuJoCo environment in a run file. */
export const mujocoEnvOptions = z.discriminatedUnion("type", [
  z.strictObject({ type: z.enum(["half-cheetah", "hopper", "walker2d", "inverted-pendulum"]), ...shared }),
  pushOptions.extend({ type: z.literal("push"), ...shared }),
]);

/** The options, resolved. */
export type MujocoOptions = z.output<typeof mujocoEnvOptions>;

/** Builds a MuJoCo environment from its options. */
export async function createMujocoEnv(options: z.input<typeof mujocoEnvOptions>): Promise<MujocoEnv | MujocoPool> {
  const parsed = parseOptions(mujocoEnvOptions, options, "env");
  const { numEnvs, numThreads } = parsed;
  const task = buildTask(parsed);
  if (numThreads > 0) return openMujocoPool(parsed, task, { numEnvs, numThreads });
  return new MujocoEnv(await loadMujoco(), task, { numEnvs });
}

/** The task that options describe. */
export function buildTask(options: MujocoOptions): MujocoTask {
  const task: MujocoTask = options.type === "push" ? createPush(options) : gymnasiumTasks[options.type];
  return options.maxSteps === undefined ? task : { ...task, maxSteps: options.maxSteps };
}
