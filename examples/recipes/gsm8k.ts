/**
 * GSM8K: grade-school math with a Hugging Face chat model, graded by comparing the final answer.
 *
 * Trains     Qwen2.5-0.5B-Instruct or any other chat model, GRPO with KL to the start
 * Hardware   one GPU with 24 GB; fewer with model.lora
 * Data       train.jsonl and test.jsonl of openai/grade-school-math under data/gsm8k
 * Command    reroll train examples/recipes/gsm8k.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "gsm8k",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl", schema: "gsm8k" },
  rewards: { default: { type: "math" } },
  rollout: {
    groupsPerStep: 64,
    groupSize: 8,
    maxInFlight: 512,
    contextLength: 1536,
    sampling: { maxTokens: 768 },
  },
  algorithm: { type: "grpo", klLoss: { coefficient: 0.001 } },
  training: { optimizer: { lr: 1e-6 }, minibatch: 256, schedule: { warmup: 5, unit: "rollout-steps" } },
  loop: { type: "sync", steps: 200 },
  validation: {
    every: 20,
    prompts: 512,
    data: { type: "jsonl", path: "data/gsm8k/test.jsonl", schema: "gsm8k" },
    metric: "reward/mean",
  },
  checkpoint: { every: 20 },
});
