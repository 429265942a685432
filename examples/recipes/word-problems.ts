/**
 * Word problems of one step with a pretrained chat model: it learns to read and to reckon.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GRPO
 * Hardware   one GPU; four minutes on an H200
 * Expected   held-out problems solved, greedy: 15 % before, 60 to 69 % after 200 steps (three seeds), docs/results.md
 * Data       made by examples/word-problems; held-out problems tell other stories with other words
 * Command    reroll train examples/recipes/word-problems.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";
import { wordProblems } from "../word-problems/problems.ts";

const rows = (part: "training" | "held-out", count: number) =>
  ({
    type: "rows",
    schema: "plain",
    fields: { question: "question", truth: "answer" },
    rows: wordProblems(part, count, 1),
  }) as const;

export const run = defineRun({
  name: "word-problems",
  model: { path: "models/SmolLM2-135M-Instruct" },
  data: rows("training", 8192),
  rewards: { default: { type: "math" } },
  rollout: { groupsPerStep: 32, groupSize: 16, maxInFlight: 512, contextLength: 384, sampling: { maxTokens: 128 } },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 2e-5 }, minibatch: 256, schedule: { warmup: 5, unit: "rollout-steps" } },
  engine: { maxRunning: 512 },
  loop: { type: "sync", steps: 200 },
  validation: { every: 20, prompts: 512, data: { ...rows("held-out", 512), name: "held-out" } },
  checkpoint: { every: 50 },
});
