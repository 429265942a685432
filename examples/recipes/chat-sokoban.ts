/**
 * Sokoban with a pretrained chat model: it reads the rules and the room as text, and answers with one word.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after a few supervised steps on random play, which teach
 *            the form of a reply and nothing of the game
 * Hardware   one GPU; three minutes on an H200 shared with five other runs
 * Expect     on 500 rooms of layouts that are never trained on, greedy: 16 % solved after the warm start, 90 to 94 % after 100 steps
 *            (three seeds), docs/results.md
 * Command    reroll train examples/recipes/chat-sokoban.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";

/** The rules, which name the symbols. */
export const instructions = [
  "You push a box onto its target. You can push it, not pull it.",
  "The room is a grid inside walls: P is you, X the box, O the target, # wall, _ floor, S you on the target.",
  "The next line shows the two cells that lie ahead of you in each direction: up, down, left, right.",
  "The last line says how many rows down and columns right the box is from you, and the target from the box.",
  "Reply with one word: Up, Down, Left or Right.",
].join("\n");

/** What is told of a room, and the limits. */
export const room = {
  type: "sokoban",
  prompt: "compact",
  instructions,
  showsSurroundings: true,
  showsOffsets: true,
  answerTags: null,
  maxTurns: 10,
  formatPenalty: 1,
} as const;

export const run = defineRun({
  name: "chat-sokoban",
  model: { path: "models/SmolLM2-135M-Instruct" },
  envs: { rooms: { ...room, part: "train" }, unseen: { ...room, part: "validation" } },
  data: { type: "env", env: "rooms" },
  rollout: {
    groupsPerStep: 24,
    groupSize: 12,
    maxInFlight: 288,
    context: "turn",
    contextLength: 320,
    sampling: { maxTokens: 4 },
  },
  algorithm: {
    type: "gigpo",
    gamma: 0.9,
    episodeWeight: 0,
    bypass: {},
    reduction: { type: "token-mean" },
    entropy: { type: "fixed", coefficient: 0.05 },
  },
  training: { optimizer: { lr: 2e-5, betas: [0.9, 0.99] }, minibatch: 96, maxTokensPerMicrobatch: 16_384 },
  loop: { type: "sync", steps: 100 },
  warmStart: { type: "play", steps: 30, turnsPerStep: 128, optimizer: { lr: 5e-5 } },
  validation: {
    every: 20,
    prompts: 500,
    metric: "env/success",
    data: { type: "env", env: "unseen", part: "validation" },
  },
});
