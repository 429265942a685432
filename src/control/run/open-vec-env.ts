/** The environments of a run: a built-in task by its name, or the user's own. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { ControlConfig } from "../control-config.ts";
import { createVecEnv } from "../envs/vec-catalog.ts";
import type { VecEnv } from "../envs/vec-env.ts";

/** Creates the environments. Close them when done. */
export async function openVecEnv({ env }: Pick<ControlConfig, "env">): Promise<VecEnv> {
  if (env.type !== "custom") return createVecEnv(env);
  const made = await env.create(env.numEnvs);
  if (made.numEnvs === env.numEnvs) return made;
  await made.close?.();
  throw new RerollError(
    "INVALID_OPTION",
    `env.create made ${made.numEnvs} environments for env.numEnvs ${env.numEnvs}. It gets the number, and must make as many.`,
  );
}
