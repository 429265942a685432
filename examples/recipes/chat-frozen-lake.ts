/**
 * FrozenLake with a pretrained chat model: it reads the rules and the grid as text, and answers with one word.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after a few supervised steps on random play, which teach
 *            the form of a reply and nothing of the game
 * Hardware   one GPU; four minutes on an H200 shared with five other runs
 * Expect     on 500 maps of layouts that are never trained on, greedy: 7 to 9 % crossed after the warm start, 80 to 84 % after 200 steps
 *            (three seeds), docs/results.md
 * Command    reroll train examples/recipes/chat-frozen-lake.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";

/** The rules, which name the symbols. */
export const instructions = [
  "You walk over a frozen lake to the goal. A step into a hole ends the game.",
  "The lake is a grid: P is you, _ ice, O a hole, G the goal. The last line shows what lies to the left, below, to the right and above.",
  "Reply with one word: Left, Down, Right or Up.",
].join("\n");

/** What is told of a lake, and the limits. */
export const lake = {
  type: "frozen-lake",
  prompt: "compact",
  instructions,
  showsSurroundings: true,
  answerTags: null,
  maxTurns: 8,
} as const;

/** What is taken from the steps of a game. */
export const gigpo = {
  type: "gigpo",
  gamma: 0.8,
  episodeWeight: 0,
  bypass: {},
  reduction: { type: "token-mean" },
  entropy: { type: "adaptive", target: 0.3, coefficient: 0.02, stepSize: 0.0001 },
} as const;

export const run = defineRun({
  name: "chat-frozen-lake",
  model: { path: "models/SmolLM2-135M-Instruct" },
  envs: { lake: { ...lake, part: "train" }, unseen: { ...lake, part: "validation" } },
  data: { type: "env", env: "lake" },
  rollout: {
    groupsPerStep: 32,
    groupSize: 8,
    maxInFlight: 256,
    context: "turn",
    contextLength: 256,
    sampling: { maxTokens: 4 },
  },
  algorithm: gigpo,
  training: { optimizer: { lr: 2e-5, betas: [0.9, 0.99] }, minibatch: 128, maxTokensPerMicrobatch: 16_384 },
  loop: { type: "sync", steps: 200 },
  warmStart: { type: "play", steps: 30, turnsPerStep: 128, optimizer: { lr: 5e-5 } },
  validation: {
    every: 20,
    prompts: 500,
    metric: "env/success",
    data: { type: "env", env: "unseen", part: "validation" },
  },
});
