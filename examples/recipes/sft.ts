/**
 * Supervised fine-tuning: learn the assistant's replies of a data file, and nothing else.
 *
 * Trains     a chat model on GSM8K's own solutions; only the tokens of replies count
 * Hardware   one GPU for models of 0.5B and up
 * Data       gsm8k/train.jsonl under data/
 * Command    reroll train examples/recipes/sft.ts --set model.path=models/Qwen2.5-0.5B
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "sft",
  model: { path: "models/Qwen2.5-0.5B" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl", schema: "gsm8k" },
  rewards: { default: { type: "math" } },
  rollout: { contextLength: 1024, sampling: { maxTokens: 512 } },
  warmStart: {
    type: "data",
    data: {
      type: "jsonl",
      path: "data/gsm8k/train.jsonl",
      schema: "plain",
      fields: { question: "question", truth: "answer" },
    },
    steps: 300,
    rowsPerStep: 64,
    optimizer: { lr: 1e-5 },
    schedule: { type: "cosine", warmup: 10 },
  },
  training: { optimizer: { lr: 1e-6 } },
  // No reinforcement learning follows.
  loop: { type: "sync", steps: 0 },
  validation: {
    prompts: 256,
    data: { type: "jsonl", path: "data/gsm8k/test.jsonl", schema: "gsm8k" },
  },
});
