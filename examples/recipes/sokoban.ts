/**
 * Sokoban from nothing: a model of 0.1M parameters learns to push a box onto its target.
 *
 * Trains     rooms of 6x6 with one box, a new room for every group; validation on rooms whose solution has 4 moves or more
 * Hardware   two CPU cores, no GPU
 * Time       TIME
 * Expect     EXPECT
 * Command    reroll train examples/recipes/sokoban.ts
 */
import { defineRun } from "reroll";

const room = { type: "sokoban", prompt: "compact", answerTags: null, maxTurns: 12 } as const;

export const run = defineRun({
  name: "sokoban",
  model: { preset: "nano" },
  // Easy rooms are in the training mixture, because chance alone hardly ever solves the others.
  envs: { any: room, hard: { ...room, minMoves: 4 } },
  data: { type: "env", env: "any" },
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
    gamma: 0.9,
    episodeWeight: 0,
    bypass: {},
    reduction: { type: "token-mean" },
    // Rewards go up to 11 here.
    entropy: { type: "adaptive", target: 0.6, coefficient: 0.3, stepSize: 0.001 },
  },
  training: {
    optimizer: { lr: 1.5e-3, betas: [0.9, 0.99] },
    schedule: { type: "cosine", finalFactor: 0.05 },
    minibatch: 128,
    maxTokensPerMicrobatch: 32_768,
  },
  engine: { maxRunning: 512, maxStepTokens: 16_384 },
  loop: { type: "sync", steps: 150 },
  warmStart: { type: "play", steps: 40 },
  validation: {
    every: 25,
    prompts: 500,
    metric: "env/success",
    data: { type: "env", env: "hard", part: "validation" },
  },
});
