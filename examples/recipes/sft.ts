/**
 * Supervised fine-tuning: learn the replies of a data file, and nothing else.
 *
 * Trains     a chat model on GSM8K's own solutions; only the tokens of replies count
 * Hardware   one GPU for models of 0.5B and up
 * Data       gsm8k/train.jsonl and gsm8k/test.jsonl under data/
 * Command    reroll train examples/recipes/sft.ts --set model.path=models/Qwen2.5-0.5B
 */
import { defineTuning } from "reroll";

export const run = defineTuning({
  name: "sft",
  model: { path: "models/Qwen2.5-0.5B" },
  objective: { type: "supervised" },
  data: { type: "jsonl", path: "data/gsm8k/train.jsonl" }, // rows of question and answer
  contextLength: 1024,
  loop: { epochs: 3, rowsPerStep: 64 },
  training: { optimizer: { lr: 1e-5 }, schedule: { type: "cosine", warmup: 10 } },
  // The weights of the lowest loss on held-out rows are kept as the best checkpoint.
  validation: { data: { type: "jsonl", path: "data/gsm8k/test.jsonl" }, every: 50 },
});
