/**
 * Three domains in one run with a small chat model: word problems, small functions with tests in a sandbox, and requests with rules,
 * 40 : 30 : 30 of what is trained on.
 *
 * Trains     SmolLM2-135M-Instruct or any other small chat model with GRPO
 * Expect     held out, greedy, after 105 steps: word problems 12 to 56 %, functions 40 to 100 %, rules 15 to 100 % (one seed, docs/results.md)
 * Hardware   one GPU, five minutes on an H200 beside seven other runs; the functions are JavaScript, whose sandbox needs nothing
 * Data       made by examples/word-problems and examples/three-domains
 * Command    reroll train examples/recipes/three-domains.ts --set model.path=models/SmolLM2-135M-Instruct
 */
import { defineRun } from "reroll";
import { functionTasks, ruledTasks } from "../three-domains/tasks.ts";
import { wordProblems } from "../word-problems/problems.ts";

const mix = (part: "training" | "held-out", count: number) => {
  const fields = { question: "question", truth: "truth" };
  const problems = wordProblems(part, count, 1).map(({ question, answer }) => ({ question, truth: answer }));
  const plain = { type: "rows", schema: "plain", fields } as const;
  return {
    type: "mix" as const,
    parts: [
      { ratio: 40, source: { ...plain, domain: "math", rows: problems } },
      { ratio: 30, source: { ...plain, domain: "code", rows: functionTasks(part, count) } },
      { ratio: 30, source: { type: "rows" as const, domain: "rules", rows: ruledTasks(part, count) } },
    ],
  };
};

export const run = defineRun({
  name: "three-domains",
  model: { path: "models/SmolLM2-135M-Instruct" },
  data: mix("training", 4096),
  rewards: {
    math: { type: "math", symbolic: false },
    code: { type: "code", languages: ["javascript"] },
    rules: { type: "ifeval" },
  },
  rollout: { groupsPerStep: 40, groupSize: 12, maxInFlight: 480, contextLength: 384, sampling: { maxTokens: 128 } },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 2e-5 }, minibatch: 240, maxTokensPerMicrobatch: 16_384 },
  loop: { type: "sync", steps: 150 },
  validation: { every: 15, prompts: 480, data: mix("held-out", 1024) },
});
