import { defineRun } from "reroll";

export const run = defineRun({
  name: "sokoban",
  model: { preset: "nano" },
  envs: { room: { type: "sokoban", prompt: "compact", minMoves: 4, maxTurns: 12 } },
  rollout: {
    groupsPerStep: 32,
    groupSize: 16,
    maxInFlight: 512,
    context: "turn",
    contextLength: 64,
    sampling: { maxTokens: 3 },
  },
  algorithm: { type: "gigpo", gamma: 0.9, episodeWeight: 0, bypass: {}, reduction: { type: "token-mean" } },
  training: { optimizer: { lr: 1e-3 }, minibatch: 128, maxTokensPerMicrobatch: 32_768 },
  engine: { maxRunning: 512, maxStepTokens: 8192 },
  loop: { type: "sync", steps: 150 },
  warmStart: { type: "play" },
  validation: { every: 25, prompts: 500, metric: "env/success" },
});
