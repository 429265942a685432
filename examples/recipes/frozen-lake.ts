/**
 * The first run: a model of 0.1M parameters learns to cross frozen lakes, from nothing, by reinforcement learning.
 *
 * Trains     FrozenLake 4x4 with random start and goal, a new map for every group; a turn is a sample of its own
 * Hardware   two CPU cores, no GPU
 * Time       two minutes
 * Expect     success on 500 maps whose layouts are never trained on, always taking the likeliest move: 6 to 10 % after the warm
 *            start, 90 % at the end (89 to 91 % over five seeds); random play reaches 19 %
 * Command    reroll train examples/recipes/frozen-lake.ts
 */
import { defineRun } from "reroll";

// The grid and the four cells around the player, a token per cell; the reply is one word, so entropy is that of the choice.
const told = { prompt: "compact", showsSurroundings: true, answerTags: null } as const;
const lake = { type: "frozen-lake", ...told, maxTurns: 8 } as const;

export const run = defineRun({
  name: "frozen-lake",
  model: { preset: "nano" },
  envs: { lake: { ...lake, part: "train" }, unseen: { ...lake, part: "validation" } },
  data: { type: "env", env: "lake" },
  rollout: {
    groupsPerStep: 64,
    groupSize: 8,
    maxInFlight: 512,
    context: "turn",
    contextLength: 64,
    sampling: { maxTokens: 1 },
  },
  algorithm: {
    type: "gigpo",
    gamma: 0.8,
    episodeWeight: 0,
    bypass: {},
    reduction: { type: "token-mean" },
    // Off while choices are open anyway. Later it keeps both ways around a hole alive until holes are seen.
    entropy: { type: "adaptive", target: 0.6, coefficient: 0.04, stepSize: 0.0001 },
  },
  training: {
    optimizer: { lr: 1.5e-3, betas: [0.9, 0.99] },
    schedule: { type: "cosine", finalFactor: 0.1 },
    minibatch: 128,
    maxTokensPerMicrobatch: 32_768,
  },
  engine: { maxRunning: 512, maxStepTokens: 8192 },
  loop: { type: "sync", steps: 150 },
  warmStart: { type: "play" },
  validation: {
    every: 25,
    prompts: 500,
    metric: "env/success",
    data: { type: "env", env: "unseen", part: "validation" },
  },
});
