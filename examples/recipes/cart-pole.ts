/**
 * PPO balances a pole on a cart.
 *
 * Trains     CartPole-v1 with the settings that are published for small tasks
 * Hardware   one CPU core
 * Time       twenty seconds
 * Expect     mean return of the last 100 episodes: 475 after 205k to 256k steps, 500 at the end (three seeds); 500 is the most
 *            there is, and 490 is published
 * Command    reroll train examples/recipes/cart-pole.ts
 */
import { defineControlRun } from "reroll/control";

export const run = defineControlRun({
  name: "cart-pole",
  env: { type: "cart-pole", numEnvs: 4 },
  algorithm: { type: "ppo", lr: 2.5e-4, entropy: 0.01, valueClip: 0.2 },
  loop: { steps: 500_000, ticks: 128 },
});
