/**
 * PPO teaches a planar cheetah to run, in MuJoCo.
 *
 * Trains     HalfCheetah-v4 with the settings that are published for MuJoCo
 * Hardware   one CPU core
 * Time       four minutes
 * Expect     mean return of the last 100 episodes after 1M steps: 1682, 1709 and 1882 (three seeds); 1443 is published
 * Command    reroll train examples/recipes/half-cheetah.ts
 */
import { defineControlRun } from "reroll/control";

export const run = defineControlRun({
  name: "half-cheetah",
  env: { type: "half-cheetah", numEnvs: 1 },
  policy: { normalizeObservations: true },
  algorithm: { type: "ppo", lr: 3e-4, epochs: 10, minibatches: 32, valueClip: 0.2, normalizeRewards: true },
  loop: { steps: 1_000_000, ticks: 2048 },
});
