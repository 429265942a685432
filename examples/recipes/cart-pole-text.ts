/**
 * Balancing in words: a model of 0.1M parameters reads four numbers and keeps a pole upright, from nothing.
 *
 * Trains     CartPole told as whole numbers from -5 to 5, up to 60 pushes; a turn is a sample of its own
 * Hardware   two CPU cores, no GPU
 * Time       two minutes at a load of 16, less on idle cores
 * Expect     pushes on 200 unseen starts, always taking the likeliest: 9 to 17 after the warm start, 60 of 60 at the end with each
 *            of five seeds; random play lasts 22
 * Command    reroll train examples/recipes/cart-pole-text.ts
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "cart-pole-text",
  model: { preset: "nano" },
  envs: { pole: { type: "cart-pole-text", prompt: "compact", answerTags: null, maxTurns: 60 } },
  rollout: {
    groupsPerStep: 2,
    groupSize: 32,
    maxTurns: 60,
    maxInFlight: 64,
    context: "turn",
    contextLength: 32,
    sampling: { maxTokens: 1 },
  },
  // Turns of a group that read alike are compared by how long the pole stood after them.
  algorithm: { type: "gigpo", gamma: 0.9, episodeWeight: 0, bypass: {}, reduction: { type: "token-mean" } },
  training: {
    optimizer: { lr: 1.5e-3, betas: [0.9, 0.99] },
    schedule: { type: "cosine", finalFactor: 0.1 },
    maxTokensPerMicrobatch: 32_768,
  },
  engine: { maxRunning: 64 },
  loop: { type: "sync", steps: 30 },
  warmStart: { type: "play", steps: 20 },
  validation: { every: 5, prompts: 200, metric: "reward/mean" },
});
