/**
 * Instructions moved into the weights: the model is its own teacher, with a system text that the student does not see.
 *
 * Trains     a chat model to answer as if it had read the instructions
 * Hardware   one GPU
 * Data       gsm8k/train.jsonl under data/; only its questions are read
 * Command    reroll train examples/recipes/context-distillation.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

const instructions =
  "Work through the problem in short numbered steps. Check the result by another way before you give it. End with the answer in a box.";

export const run = defineRun({
  name: "context-distillation",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl" },
  distillation: {
    teachers: { default: { type: "self", weights: "start", context: instructions } },
    form: "full",
    // Everything that the model would say with the instructions, and not only its favorite part of it.
    divergence: "forward",
    rewards: false,
  },
  rollout: { groupsPerStep: 64, groupSize: 1, contextLength: 1024, sampling: { maxTokens: 512 } },
  training: { optimizer: { lr: 1e-5 } },
  loop: { type: "sync", steps: 60 },
  checkpoint: { every: 20 },
});
