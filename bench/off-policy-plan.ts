/** What is compared when samplers are stale and inexact: the arms, the setting they share, and the numbers of one run. */
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import type { OffPolicySettings } from "./off-policy-run.ts";
import type { SeededRun } from "./seeded-runs.ts";

/** Noise on the engine's matrices, as a share of their own deviation; the curves are those of the last one. */
export const NOISES = [0, 0.2, 0.4] as const;

const settings = {
  task: { numDigits: 2, base: 8 },
  steps: 72,
  groupsPerStep: 32,
  groupSize: 8,
  minibatch: 64,
  lr: 5e-4,
  syncInterval: 4,
  maxStaleness: 7,
  replays: false,
  evaluationPrompts: 256,
  stepsPerEvaluation: 6,
} as const;

const plain = { type: "grpo", reduction: { type: "token-mean" }, dualClip: null } as const;
const tokenWeights = { level: "token", threshold: 2 } as const;

/** By the names that the figure and the table show. */
export const ARMS: Readonly<Record<string, RecipeChoice>> = {
  "on-policy": plain,
  "naive PPO": { ...plain, bypass: {} },
  "anchor, uncorrected": plain,
  "decoupled PPO": { type: "decoupled-ppo" },
  "decoupled, truncated": { type: "decoupled-ppo", overCap: "truncate" },
  "token weights": { ...plain, correction: { importance: tokenWeights } },
  "sequence weights": { ...plain, correction: { importance: { level: "sequence", threshold: 4 } } },
  "sequence rejection": {
    ...plain,
    correction: { importance: tokenWeights, rejections: { token_k1: "0.25_4" }, scope: "sequence" },
  },
};

export interface OffPolicyJob {
  readonly arm: string;
  readonly noise: number;
  readonly seed: number;
}

/** One run, as its file holds it. */
export interface OffPolicyRun extends OffPolicyJob, SeededRun {
  readonly settings: OffPolicySettings;
  /** Means over all steps. The gap is null where no anchor is computed, and so nothing is known of it. */
  readonly samplerGap: number | null;
  readonly clipShare: number;
  readonly keptShare: number;
}

/** Every arm at every noise, and on-policy once: all of one seed, then all of the next. */
export function jobsOf(seeds: readonly number[]): readonly OffPolicyJob[] {
  return seeds.flatMap((seed) =>
    Object.keys(ARMS).flatMap((arm) => (isFresh(arm) ? [0] : NOISES).map((noise) => ({ arm, noise, seed }))),
  );
}

/** The fresh arm samples every step with the weights that the step trains. */
export function settingsOf({ arm, noise }: OffPolicyJob): OffPolicySettings {
  return { ...settings, noise, ...(isFresh(arm) && { syncInterval: 1, maxStaleness: 0 }) };
}

function isFresh(arm: string): boolean {
  return arm === "on-policy";
}
