/** The built-in vector environments by name: classic control tasks and MuJoCo tasks. */
import { z } from "zod";
import { parseOptions } from "../../errors/parse-options.ts";
import { controlEnvOptions, createControlEnv } from "./classic/classic-env.ts";
import { createMujocoEnv, mujocoEnvOptions } from "./mujoco/create-mujoco-env.ts";
import type { VecEnv } from "./vec-env.ts";

/** The options of a built-in vector environment in a run file. */
export const vecEnvOptions = z.discriminatedUnion("type", [controlEnvOptions, mujocoEnvOptions]);

/** Builds a vector environment from its options. Close it when done: it may hold threads and memory. */
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
