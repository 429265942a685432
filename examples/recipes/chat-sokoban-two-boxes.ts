/**
 * Sokoban with two boxes on 8x8 with a pretrained chat model.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after supervised steps on shortest solutions of rooms
 *            for training: random play solves so few of these rooms that rewards alone have nothing to begin with
 * Hardware   one GPU; four minutes for 20 steps on an H200 shared with five other runs
 * Expect     on 500 unseen rooms, greedy: 14 to 15 % solved after the warm start, 22 % after 20 steps (two seeds, docs/results.md)
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
const large = { ...room, instructions, size: 8, numBoxes: 2, maxTurns: 24 } as const;

export const run = defineRun({
  ...oneBox,
  name: "chat-sokoban-two-boxes",
  envs: { rooms: { ...large, part: "train" }, unseen: { ...large, part: "validation" } },
  rollout: { ...oneBox.rollout, groupsPerStep: 16, groupSize: 8, maxInFlight: 256, contextLength: 384 },
  training: { ...oneBox.training, minibatch: 64 },
  warmStart: { type: "play", agent: "oracle", steps: 80, turnsPerStep: 192, optimizer: { lr: 1e-4 } },
});
