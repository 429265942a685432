/**
 * Direct preference optimization: learn from pairs which replies are better.
 *
 * Trains     a chat model after its supervised run, as adapters, on pairs of UltraFeedback's binarized form
 * Hardware   one GPU for models of 0.5B and up
 * Data       ultrafeedback/train.parquet and ultrafeedback/test.parquet under data/, with chosen and rejected conversations
 * Command    reroll export runs/sft --out models/sft && reroll train examples/recipes/dpo.ts --set model.path=models/sft
 */
import { defineTuning } from "reroll";

export const run = defineTuning({
  name: "dpo",
  model: { path: "models/Qwen2.5-0.5B-Instruct", lora: { rank: 16, alpha: 32 } },
  objective: { type: "dpo", beta: 0.1 },
  // A few rows have equal or empty replies.
  data: { type: "parquet", path: "data/ultrafeedback/train.parquet", skipInvalid: true },
  contextLength: 1024,
  loop: { epochs: 1, rowsPerStep: 64 },
  training: { optimizer: { lr: 5e-6 }, schedule: { type: "cosine", warmup: 20 }, maxTokensPerMicrobatch: 8192 },
  validation: {
    data: { type: "parquet", path: "data/ultrafeedback/test.parquet", skipInvalid: true },
    every: 100,
    metric: "preference/accuracy",
  },
});
