import { defineRun } from "reroll";
import { sums } from "../envs/sums.ts";

export const run = defineRun({
  name: "arithmetic",
  model: { preset: "nano" },
  envs: { sums: { type: "custom", ...sums() } },
  rollout: {
    groupsPerStep: 64,
    groupSize: 16,
    maxInFlight: 512,
    contextLength: 32,
    sampling: { maxTokens: 4 },
  },
  algorithm: { type: "grpo", bypass: {} },
  training: { optimizer: { lr: 1e-3 }, minibatch: 256, maxTokensPerMicrobatch: 32_768 },
  engine: { maxRunning: 512, maxStepTokens: 8192 },
  loop: { type: "sync", steps: 100 },
  warmStart: { type: "play", agent: "oracle", steps: 150, turnsPerStep: 256 },
  validation: { every: 20, prompts: 500, metric: "env/success" },
});
