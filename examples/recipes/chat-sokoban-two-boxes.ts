/**
 * Sokoban of 8×8 with two boxes, learned beside the rooms with one.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after a few supervised steps on random play; half of the
 *            groups play 6×6 with one box, where rewards are found sooner
 * Hardware   one GPU
 * Command    reroll train examples/recipes/chat-sokoban-two-boxes.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";
import { run as oneBox, room } from "./chat-sokoban.ts";

const instructions = [
  "You push boxes onto targets. You can push one box at a time, and not pull.",
  "The room is a grid inside walls: P is you, X a box, O a target, √ a box on a target, # wall, _ floor, S you on a target.",
  "The next line shows the two cells that lie ahead of you in each direction: up, down, left, right.",
  "Then comes a line for each box: how many rows down and columns right it is from you, and its nearest target from it.",
  "Reply with one word: Up, Down, Left or Right.",
].join("\n");
const small = { ...room, instructions } as const;
const large = { ...small, size: 8, numBoxes: 2, maxTurns: 20 } as const;

export const run = defineRun({
  ...oneBox,
  name: "chat-sokoban-two-boxes",
  envs: {
    small: { ...small, part: "train" },
    large: { ...large, part: "train" },
    unseen: { ...large, part: "validation" },
  },
  data: {
    type: "mix",
    parts: [
      { ratio: 50, source: { type: "env", env: "small" } },
      { ratio: 50, source: { type: "env", env: "large" } },
    ],
  },
  rollout: {
    groupsPerStep: 24,
    groupSize: 10,
    maxInFlight: 240,
    context: "turn",
    contextLength: 384,
    sampling: { maxTokens: 4 },
  },
  loop: { type: "sync", steps: 160 },
});
