/**
 * Second tries: a sum that was wrong is shown to the model with the right one, and answered again; what is then right is learned
 * without having been shown.
 *
 * Trains     a chat model on arithmetic with a verifiable answer, by reward and by what its reflections bring
 * Hardware   one GPU
 * Data       gsm8k/train.jsonl under data/
 * Command    reroll train examples/recipes/reflection.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "reflection",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl" },
  rewards: { default: { type: "math" } },
  reflection: {
    successAt: 1,
    perGroup: 2,
    prompt:
      "That is wrong: the answer is {truth}. Say in two sentences where the mistake was, without giving the answer away.",
    context: "A note from an earlier attempt: {reflection}",
    maxTokens: 128,
  },
  rollout: { groupsPerStep: 32, groupSize: 8, contextLength: 1024, sampling: { maxTokens: 512 } },
  training: { optimizer: { lr: 1e-6 } },
  loop: { type: "sync", steps: 100 },
  checkpoint: { every: 20 },
});
