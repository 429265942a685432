/** Environments and rewards that a run file holds, built again in a thread that has loaded the file for itself. */
import { buildEnv, type EnvChoice } from "../envs/catalog.ts";
import type { EnvFactory } from "../envs/text-env.ts";
import { invariant } from "../errors/reroll-error.ts";
import { buildReward, type RewardChoice } from "../rewards/catalog.ts";
import type { Reward } from "../rewards/reward.ts";
import { loadRunFile } from "./load-run-file.ts";

/** Where something stands in a run file. */
export interface RunFilePlace {
  readonly runFile: string;
  /** As in `rewards.default.parts.0.reward`. */
  readonly path: string;
}

/** The address of this file, for threads that are to call the functions below. */
export const runFilePartsModule = import.meta.url;

export async function envOfRunFile(place: RunFilePlace): Promise<EnvFactory> {
  return buildEnv((await choiceAt(place)) as EnvChoice);
}

export async function rewardOfRunFile(place: RunFilePlace): Promise<Reward> {
  return buildReward((await choiceAt(place)) as RewardChoice, place.path);
}

async function choiceAt({ runFile, path }: RunFilePlace): Promise<unknown> {
  let found: unknown = await loadRunFile(runFile);
  for (const key of path.split(".")) {
    invariant(typeof found === "object" && found !== null, `${runFile} holds nothing at ${path}`);
    found = Reflect.get(found, key);
  }
  return found;
}
