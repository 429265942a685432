/**
 * Sokoban in another vocabulary: the rooms of chat-sokoban.ts, written in letters.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after a few supervised steps on random play
 * Hardware   one GPU
 * Expect     on 500 unseen rooms, greedy: 16 % solved after the warm start, 77 % after 60 steps (one seed, docs/results.md); the model that
 *            learned chat-sokoban.ts solves 86 % of these rooms without training on them
 * Command    reroll train examples/recipes/chat-sokoban-letters.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";
import { run as inSymbols, instructions, room } from "./chat-sokoban.ts";

const letters = {
  ...room,
  symbols: "letters",
  instructions: instructions.replace(
    "P is you, X the box, O the target, # wall, _ floor, S you on the target",
    "A is you, B the box, G the target, W wall, . floor, @ you on the target",
  ),
} as const;

export const run = defineRun({
  ...inSymbols,
  name: "chat-sokoban-letters",
  envs: { rooms: { ...letters, part: "train" }, unseen: { ...letters, part: "validation" } },
});
