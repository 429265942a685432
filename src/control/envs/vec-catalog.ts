/** The built-in vector environments by name: the classic control tasks and those of MuJoCo. */
import { z } from "zod";
import { parseOptions } from "../../errors/parse-options.ts";
import { controlEnvOptions, createControlEnv } from "./classic/classic-env.ts";
import { createMujocoEnv, mujocoEnvOptions } from "./mujoco/create-mujoco-env.ts";
import type { VecEnv } from "./vec-env.ts";

/** A vector environment as run files name it. */
export const vecEnvOptions = z.discriminatedUnion("type", [controlEnvOptions, mujocoEnvOptions]);

/** Builds one from a run file's options. Close it when done: it may hold threads and memory. */
export async function createVecEnv(options: z.input<typeof vecEnvOptions>): Promise<VecEnv> {
  const parsed = parseOptions(vecEnvOptions, options, "env");
  switch (parsed.type) {
    case "acrobot":
    case "cart-pole":
    case "mountain-car":
    case "pendulum":
      return createControlEnv(parsed);
    case "half-cheetah":
    case "hopper":
    case "walker2d":
    case "inverted-pendulum":
    case "push":
      return createMujocoEnv(parsed);
  }
}
