/** Which run files bring code of their own. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isModule } from "./load-run-file.ts";
import type { RunConfig } from "./run-config.ts";

/** Whether functions of the run file are called by a run: its agent, or what makes or scores episodes. */
export function hasForeignCode({ agent, envs, rewards }: RunConfig): boolean {
  const isCustom = (choice: object): boolean =>
    ("type" in choice && choice.type === "custom") ||
    ("parts" in choice && Array.isArray(choice.parts) && choice.parts.some(({ reward }) => isCustom(reward)));
  return agent !== null || [...Object.values(envs), ...Object.values(rewards)].some(isCustom);
}

/** The module that threads can load to find functions of the run file in it; null for a run that was made in code, which may have the name of a file and no file. */
export function loadableModule(runFile: string | undefined): string | null {
  return runFile !== undefined && isModule(runFile) && existsSync(runFile) ? resolve(runFile) : null;
}

/**
 * Whether any of those functions are called in the thread of the run itself. Custom environments and rewards have threads of their own where
 * those can load the run file; agents have not, nor have environments that a warm start plays, or that say that they need none, nor has the function that an
 * environment fetches its prompts with.
 */
export function callsForeignCodeHere(config: RunConfig, runFile: string | undefined): boolean {
  if (config.agent !== null || loadableModule(runFile) === null) return hasForeignCode(config);
  const isHere = (env: RunConfig["envs"][string]) =>
    env.type === "custom" && (env.runsInThreads === true || config.warmStart !== null || "fetchPrompt" in env);
  return Object.values(config.envs).some(isHere);
}
