/**
 * PPO teaches one leg to hop, in MuJoCo.
 *
 * Trains     Hopper-v4 with the settings that are published for MuJoCo
 * Hardware   one CPU core
 * Time       five minutes
 * Expect     mean return of the last 100 episodes after 1M steps: 2273, 2755 and 2882 (three seeds); 2383 is published
 * Command    reroll train examples/recipes/hopper.ts
 */
import { defineControlRun } from "reroll/control";

export const run = defineControlRun({
  name: "hopper",
  env: { type: "hopper", numEnvs: 1 },
  policy: { normalizeObservations: true },
  algorithm: { type: "ppo", lr: 3e-4, epochs: 10, minibatches: 32, valueClip: 0.2, normalizeRewards: true },
  loop: { steps: 1_000_000, ticks: 2048 },
});
