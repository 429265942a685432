/**
 * PPO swings the tip of two links over a line.
 *
 * Trains     Acrobot-v1 with the settings that are published for small tasks
 * Hardware   one CPU core
 * Time       twenty seconds
 * Expect     mean return of the last 100 episodes: -95 after 102k to 113k steps, -80 to -84 at the end (three seeds); -86.4 is
 *            published
 * Command    reroll train examples/recipes/acrobot.ts
 */
import { defineControlRun } from "reroll/control";

export const run = defineControlRun({
  name: "acrobot",
  env: { type: "acrobot", numEnvs: 4 },
  algorithm: { type: "ppo", lr: 2.5e-4, entropy: 0.01, valueClip: 0.2 },
  loop: { steps: 500_000, ticks: 128 },
});
