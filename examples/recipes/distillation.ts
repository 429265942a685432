/**
 * On-policy distillation: a small model samples, a larger one of the same family measures every token, and no reward is needed.
 *
 * Trains     a chat model on prompts alone; the teacher's log-probs of what it wrote are its advantages
 * Hardware   one GPU that holds both models, or a second machine with `type: "server"` for the teacher
 * Data       gsm8k/train.jsonl under data/; only its questions are read
 * Command    reroll train examples/recipes/distillation.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "distillation",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl" },
  distillation: {
    teachers: { default: { type: "folder", path: "models/Qwen2.5-7B-Instruct" } },
    // Whole distributions have much less noise than one log-prob per token; a server can only give the latter.
    form: "full",
    rewards: false,
  },
  // Samples of one prompt are not compared with each other: one each, and more prompts.
  rollout: { groupsPerStep: 64, groupSize: 1, contextLength: 1024, sampling: { maxTokens: 512 } },
  training: { optimizer: { lr: 1e-5 } },
  loop: { type: "sync", steps: 100 },
  checkpoint: { every: 20 },
});
