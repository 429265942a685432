/** Control: PPO on vector environments. */
import type { Scaffold } from "../scaffold.ts";

export const control: Scaffold = {
  label: "Control: a small network balances a pole, by PPO",
  isLanguageModel: false,
  runFile: ({ name }) => `import { defineControlRun } from "reroll/control";

/**
 * A small network balances a pole on a cart. Other tasks are "pendulum", "acrobot" and "mountain-car", and "hopper", "half-cheetah",
 * "walker2d" with MuJoCo (npm install @mujoco/mujoco); for your own, write env: { type: "custom", ... }.
 * Every key that is not here has a default: npx reroll train run.ts --explain shows them all.
 */
export default defineControlRun({
  name: ${JSON.stringify(name)},
  env: { type: "cart-pole", numEnvs: 8 },
  algorithm: { type: "ppo", lr: 1e-3, entropy: 0.01 },
  loop: { steps: 120_000, ticks: 64 },
});
`,
  files: {},
  about: "",
  measured: "the return rises from 20 to 500, which is the most there is, in 120,000 steps",
};
