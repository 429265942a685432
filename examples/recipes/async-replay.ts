/**
 * Rollout and training at the same time, with staleness bounded, corrected for, and a quarter of each batch replayed.
 *
 * Trains     a model of 0.1M parameters on FrozenLake, from nothing
 * Hardware   two CPU cores, no GPU
 * Time       a few minutes
 * Expect     rollout and training overlap (idle shares in the terminal); staleness never above 1, that of replays never above 16
 * Command    reroll train examples/recipes/async-replay.ts
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "async-replay",
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
  algorithm: {
    type: "gigpo",
    gamma: 0.8,
    episodeWeight: 0,
    correction: { importance: { level: "token", threshold: 2 } },
    reduction: { type: "token-mean" },
  },
  training: { optimizer: { lr: 1e-3 }, minibatch: 128, maxTokensPerMicrobatch: 32_768 },
  replay: { capacity: 1024, ratio: 0.25, halfLife: 2 },
  loop: { type: "async", steps: 120, syncInterval: 1, maxStaleness: 1 },
  warmStart: { type: "play", steps: 20 },
  validation: { every: 20, prompts: 256, metric: "env/success", temperature: 1 },
});
