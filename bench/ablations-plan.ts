/** The same task and budget with every algorithm: what they share, and what each says for itself. */
import { run as frozenLake } from "../examples/recipes/frozen-lake.ts";
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import type { SeededRun } from "./seeded-runs.ts";

const { entropy } = frozenLake.algorithm as { entropy: object };
const shared = { bypass: {}, reduction: { type: "token-mean" }, entropy } as const;

/**
 * By the names that figure and table show. Those that compare whole episodes are as their papers have them. A reply is one token, so that
 * GSPO's ratio is the token's, and its range the usual one. PPO and GiGPO discount turns as the recipe does.
 */
export const ALGORITHMS = {
  GRPO: { type: "grpo", ...shared },
  DAPO: { type: "dapo", ...shared },
  RLOO: { type: "rloo", ...shared },
  GSPO: { type: "gspo", ...shared, clipLow: 0.2, clipHigh: 0.2 },
  PPO: { type: "ppo", ...shared, gamma: 0.8 },
  GiGPO: { type: "gigpo", ...shared, gamma: 0.8, episodeWeight: 0 },
} as Readonly<Record<string, RecipeChoice>>;

/** The recipe frozen-lake with another algorithm, and fewer steps. */
export function ablationOf(name: string) {
  return {
    ...frozenLake,
    algorithm: ALGORITHMS[name]!,
    critic: { optimizer: frozenLake.training!.optimizer! },
    loop: { type: "sync", steps: 100 },
    validation: { ...frozenLake.validation!, every: 20 },
  };
}

/** One run, as its file holds it. */
export interface AblationRun extends SeededRun {
  readonly algorithm: string;
}
