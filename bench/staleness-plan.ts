/** What is compared when weights reach the sampler late: how late, with which correction, with and without replay. */
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import type { OffPolicyRun } from "./off-policy-plan.ts";
import { ARMS, settingsOf } from "./off-policy-plan.ts";
import type { OffPolicySettings } from "./off-policy-run.ts";

/** Training steps between two publications of weights. */
export const INTERVALS = [1, 4, 16] as const;

/** By the names that figure and table show. */
export const STALE_ARMS: Readonly<Record<string, { readonly algorithm: RecipeChoice; readonly replays: boolean }>> = {
  naive: { algorithm: ARMS["naive PPO"]!, replays: false },
  corrected: { algorithm: ARMS["token weights"]!, replays: false },
  "naive, replay": { algorithm: ARMS["naive PPO"]!, replays: true },
  "corrected, replay": { algorithm: ARMS["token weights"]!, replays: true },
};

/** One run, as its file holds it. */
export type StaleRun = Omit<OffPolicyRun, "noise" | "samplerGap"> & { readonly syncInterval: number };

/** The engine has always sampled one publication ahead. Exact weights, and twice the steps of the comparison with noise. */
export function staleSettings(arm: string, syncInterval: number): OffPolicySettings {
  return {
    ...settingsOf({ arm, noise: 0, seed: 1 }),
    ...{ steps: 144, stepsPerEvaluation: 12, syncInterval, maxStaleness: 2 * syncInterval - 1 },
    replays: STALE_ARMS[arm]!.replays,
  };
}
