/** A small run that is valid, for tests that break or vary it. */
import { applyOverrides, parseOverride } from "../../src/run/apply-overrides.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import type { RunConfig } from "../../src/run/run-config.ts";

export const exampleRun = {
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", size: 3 } },
  rollout: { groupsPerStep: 4, groupSize: 4, contextLength: 256, sampling: { maxTokens: 16 } },
  training: { optimizer: { lr: 0.001 } },
} as const;

/** The example with other values, each as `--set` would give it, and everything else filled in. */
export function exampleConfig(...sets: readonly string[]): RunConfig {
  return resolveRun(applyOverrides(exampleRun, sets.map(parseOverride))).config;
}
