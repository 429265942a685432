import { defineRun } from "../../src/run/define-run.ts";

export const run = defineRun({
  name: "frozen-lake",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 8 } },
  rollout: {
    groupsPerStep: 32,
    groupSize: 16,
    maxInFlight: 512,
    context: "turn",
    contextLength: 64,
    sampling: { maxTokens: 4 },
  },
  algorithm: { type: "gigpo", gamma: 0.8, episodeWeight: 0, bypass: {}, reduction: { type: "token-mean" } },
  training: { optimizer: { lr: 1e-3 }, minibatch: 128, maxTokensPerMicrobatch: 32_768 },
  engine: { maxRunning: 512, maxStepTokens: 8192 },
  loop: { type: "sync", steps: 120 },
  warmStart: { type: "play" },
  validation: { every: 20, prompts: 500, metric: "env/success" },
});
