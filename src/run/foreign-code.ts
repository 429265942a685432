/** Which run files bring code of their own. */
import type { RunConfig } from "./run-config.ts";

/** Whether functions of the run file are called by a run: its agent, or what makes or scores episodes. */
export function hasForeignCode({ agent, envs, rewards }: RunConfig): boolean {
  const isCustom = (choice: object): boolean =>
    ("type" in choice && choice.type === "custom") ||
    ("parts" in choice && Array.isArray(choice.parts) && choice.parts.some(({ reward }) => isCustom(reward)));
  return agent !== null || [...Object.values(envs), ...Object.values(rewards)].some(isCustom);
}
