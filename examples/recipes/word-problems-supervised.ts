/**
 * The arm beside word-problems.ts: as many updates on as many rows, on worked replies instead of rewards.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model on "54 / 6 = 9. The answer is 9."
 * Hardware   one GPU
 * Data       the training problems of examples/word-problems
 * Command    reroll train examples/recipes/word-problems-supervised.ts --set model.path=models/SmolLM2-135M-Instruct
 * Then       reroll eval runs/word-problems-supervised --run-file examples/recipes/word-problems.ts
 */
import { defineTuning } from "reroll";
import { wordProblems } from "../word-problems/problems.ts";

const rows = (part: "training" | "held-out", count: number) =>
  ({
    type: "rows",
    rows: wordProblems(part, count, 1).map(({ question, solution }) => ({ prompt: question, completion: solution })),
  }) as const;

export const run = defineTuning({
  name: "word-problems-supervised",
  model: { path: "models/SmolLM2-135M-Instruct" },
  objective: { type: "supervised" },
  data: rows("training", 8192),
  contextLength: 384,
  loop: { steps: 200, rowsPerStep: 512 },
  training: { optimizer: { lr: 2e-5 }, schedule: { warmup: 5 } },
  validation: { data: rows("held-out", 512), every: 50 },
});
