/**
 * FrozenLake on slippery ice: a step goes where it was meant to in one of three, and to either side else.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GiGPO, after a few supervised steps on random play
 * Hardware   one GPU; five to six minutes on an H200 shared with five other runs
 * Expect     on 500 maps of layouts that are never trained on, greedy: 20 to 22 % crossed after the warm start, 40 to 43 % after 80 to 100 steps
 *            (three seeds, docs/results.md). Random play crosses 23 % within 16 steps, and the best play there is about 63 %
 * Command    reroll train examples/recipes/chat-frozen-lake-slippery.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";
import { run as firmIce, gigpo, instructions, lake } from "./chat-frozen-lake.ts";

const slippery = {
  ...lake,
  isSlippery: true,
  maxTurns: 16,
  instructions: instructions.replace(
    "ends the game.",
    "ends the game. The ice is slippery: two steps of three go to a side instead.",
  ),
} as const;

export const run = defineRun({
  ...firmIce,
  name: "chat-frozen-lake-slippery",
  envs: { lake: { ...slippery, part: "train" }, unseen: { ...slippery, part: "validation" } },
  rollout: { ...firmIce.rollout, groupsPerStep: 16, groupSize: 16 },
  algorithm: { ...gigpo, gamma: 0.95 },
  loop: { type: "sync", steps: 120 },
});
