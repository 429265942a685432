/**
 * Three domains in one run: math, code and instruction following, 40 : 30 : 30 of what is trained on.
 *
 * Trains     a chat model on rewards of three kinds: compared answers, tests in a sandbox, checked constraints
 * Hardware   one GPU; bubblewrap for the code (`reroll doctor` tells)
 * Data       gsm8k/train.jsonl, code/mbpp.jsonl, general/ifeval.jsonl under data/
 * Command    reroll train examples/recipes/mixed-domains.ts --set model.path=models/Qwen2.5-0.5B-Instruct
 */
import { defineRun } from "reroll";

export const run = defineRun({
  name: "mixed-domains",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  data: {
    type: "mix",
    parts: [
      { ratio: 40, source: { type: "jsonl", path: "data/gsm8k/train.jsonl", domain: "math" } },
      { ratio: 30, source: { type: "jsonl", path: "data/code/mbpp.jsonl", domain: "code" } },
      { ratio: 30, source: { type: "jsonl", path: "data/general/ifeval.jsonl", domain: "instructions" } },
    ],
  },
  rewards: {
    math: { type: "math" },
    code: { type: "code", languages: ["python"] },
    instructions: { type: "ifeval" },
  },
  rollout: {
    groupsPerStep: 40,
    groupSize: 8,
    maxInFlight: 320,
    contextLength: 2048,
    sampling: { maxTokens: 768 },
    filter: { dropEqualRewards: true },
  },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 1e-6 }, minibatch: 160 },
  loop: { type: "sync", steps: 200 },
  checkpoint: { every: 20 },
});
