/** Keys of run files that have another name now. A row stays until the release after the one that renamed the key. */
import { RerollError } from "../errors/reroll-error.ts";
import type { RawRun } from "./load-run-file.ts";

/** The new key by the old one, both dotted. */
const renamedKeys: Readonly<Record<string, string>> = {
  "training.checkpoint": "training.recompute",
  trainerThreads: "training.threads",
  "algorithm.overlong.maxLength": "algorithm.overlong.maxTokens",
  "algorithm.overlong.buffer": "algorithm.overlong.bufferTokens",
  "algorithm.overlong.factor": "algorithm.overlong.penalty",
  "algorithm.klReward.adaptive.target": "algorithm.klReward.adaptive.targetKl",
};

/** Throws where a run, its `--set` words included, uses an old key, and names the new one. */
export function expectCurrentKeys(written: RawRun): void {
  for (const [old, current] of Object.entries(renamedKeys)) {
    if (hasKey(written, old.split(".")))
      throw new RerollError("INVALID_OPTION", `${old} is now ${current}. Rename it.`);
  }
}

function hasKey(owner: unknown, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return true;
  if (typeof owner !== "object" || owner === null || !Object.hasOwn(owner, key)) return false;
  return hasKey((owner as RawRun)[key], rest);
}
