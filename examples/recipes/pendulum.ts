/**
 * PPO swings a pendulum up and holds it, with one continuous action.
 *
 * Trains     Pendulum-v1
 * Hardware   one CPU core
 * Time       eleven seconds
 * Expect     mean return of the last 100 episodes: -250 after 70k to 86k steps, -153 to -156 at the end (three seeds)
 * Command    reroll train examples/recipes/pendulum.ts
 */
import { defineControlRun } from "reroll/control";

export const run = defineControlRun({
  name: "pendulum",
  env: { type: "pendulum", numEnvs: 4 },
  policy: { normalizeObservations: true },
  // A gamma of 0.9 with four times as many updates, as it is often tuned, stayed at -670.
  algorithm: { type: "ppo", gamma: 0.95, lr: 1e-3, epochs: 10, minibatches: 16, normalizeRewards: true },
  loop: { steps: 200_000, ticks: 1024 },
});
