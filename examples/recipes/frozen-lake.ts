/**
 * The first run: a model of 0.1M parameters learns to cross frozen lakes, from nothing, by reinforcement learning.
 *
 * Trains     FrozenLake 4x4 with random start and goal, a new map for every group; a turn is a sample of its own
 * Hardware   two CPU cores, no GPU
 * Time       TIME
 * Expect     EXPECT
 * Command    reroll train examples/recipes/frozen-lake.ts
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "frozen-lake",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", showsSurroundings: true, maxTurns: 8 } },
  rollout: {
    groupsPerStep: 64,
    groupSize: 8,
    maxInFlight: 512,
    context: "turn",
    contextLength: 64,
    // A reply has three tokens. With room for more, entropy would go into words around the answer.
    sampling: { maxTokens: 3 },
  },
  algorithm: {
    type: "gigpo",
    gamma: 0.8,
    episodeWeight: 0,
    bypass: {},
    reduction: { type: "token-mean" },
    // Off at first, when it would spoil the format; later it keeps ways open that avoid holes.
    entropy: { type: "adaptive", target: 0.2, coefficient: 0.04, stepSize: 0.0001 },
  },
  training: {
    optimizer: { lr: 1.5e-3, betas: [0.9, 0.99] },
    minibatch: 128,
    maxTokensPerMicrobatch: 32_768,
  },
  engine: { maxRunning: 512, maxStepTokens: 8192 },
  loop: { type: "sync", steps: 150 },
  warmStart: { type: "play" },
  validation: { every: 25, prompts: 500, metric: "env/success" },
});
