/**
 * Countdown: reach a number by arithmetic with given ones, with an exact checker as the reward.
 *
 * Trains     a Hugging Face chat model with GRPO; format is worth 0.1, a right expression 1
 * Hardware   one GPU for models of 0.5B and up
 * Expect     format within tens of steps; right answers after that, depending on the model
 * Command    reroll train examples/recipes/countdown.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "countdown",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  envs: { countdown: { type: "countdown" } },
  rollout: {
    groupsPerStep: 64,
    groupSize: 8,
    maxInFlight: 512,
    contextLength: 1024,
    sampling: { maxTokens: 512 },
    // Groups that are all right or all wrong teach nothing: they are replaced.
    filter: { dropEqualRewards: true },
  },
  algorithm: { type: "dapo" },
  training: { optimizer: { lr: 1e-6 }, minibatch: 256, schedule: { warmup: 5, unit: "rollout-steps" } },
  loop: { type: "sync", steps: 200 },
  validation: { every: 20, prompts: 256, metric: "reward/mean" },
  checkpoint: { every: 20 },
});
