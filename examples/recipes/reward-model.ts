/**
 * A reward model: learn from pairs to score replies, for runs that sample their own.
 *
 * Trains     a scoring head and the whole decoder on dialogs of HH
 * Hardware   one GPU for models of 0.5B and up
 * Data       hh/train.jsonl.gz and hh/test.jsonl.gz under data/, rows { chosen, rejected }
 * Command    reroll train examples/recipes/reward-model.ts
 *            reroll export runs/reward-model --out models/scorer
 *            and then, in a run: rewards: { default: { type: "reward-model", path: "models/scorer" } }
 */
import { defineTuning } from "reroll";

export const run = defineTuning({
  name: "reward-model",
  model: { path: "models/Qwen2.5-0.5B-Instruct" },
  objective: { type: "reward-model", centering: 0.01 },
  data: { type: "jsonl", path: "data/hh/train.jsonl.gz", skipInvalid: true },
  contextLength: 1024,
  loop: { epochs: 1, rowsPerStep: 64 },
  training: { optimizer: { lr: 1e-5 }, schedule: { type: "cosine", warmup: 20 }, maxTokensPerMicrobatch: 8192 },
  validation: {
    data: { type: "jsonl", path: "data/hh/test.jsonl.gz", skipInvalid: true },
    every: 200,
    metric: "preference/accuracy",
  },
});
