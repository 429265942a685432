/**
 * An agent of the Vercel AI SDK with a tool gets better at a task that needs it: word problems with numbers too large for a small model.
 *
 * Trains     SmolLM2-135M-Instruct with GRPO, after supervised steps that show the form of a call and of an answer: half of them guess a
 *            number, half call the calculator with each operation in turn
 * Hardware   one GPU; 40 steps take two to four minutes on an H200 shared with three to seven other runs
 * Expect     held-out problems solved, greedy: 0 to 30 % before, 91 to 97 % after 40 steps (three seeds, docs/results.md)
 * Model      its own chat template shows no tools: copy examples/word-problems/tools-template.jinja over chat_template.jinja
 * Command    reroll train examples/recipes/calculator-agent.ts --set model.path=models/SmolLM2-135M-Instruct-tools
 *
 * The agent knows nothing of reroll but an address: it would run against any other model as it is.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, tool } from "ai";
import { type AgentCall, defineRun, type Prompt } from "reroll";
import { z } from "zod";
import { type WordProblem, wordProblems } from "../word-problems/problems.ts";

const instructions = "Solve the problem. Answer with the number.";
const description = "computes an expression of two numbers";

const calculator = tool({
  description,
  inputSchema: z.object({ expression: z.string() }),
  execute: async ({ expression }) => compute(expression),
});

async function solve(prompt: Prompt, { baseURL, apiKey, model, signal }: AgentCall) {
  const { text, steps } = await generateText({
    model: createOpenAICompatible({ name: "reroll", baseURL, apiKey })(model),
    system: instructions,
    prompt: String(prompt.messages[0]?.content),
    tools: { calculator },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
    abortSignal: signal,
  });
  const isRight = (text.match(/-?\d+/g) ?? []).at(-1) === prompt.truth;
  return { reward: Number(isRight), metrics: { calls: steps.flatMap(({ toolCalls }) => toolCalls).length } };
}

function compute(expression: string): string {
  const [, a, sign, b] = /^\s*(\d+)\s*([-+*/])\s*(\d+)\s*$/.exec(expression) ?? [];
  switch (sign) {
    case "+":
      return String(Number(a) + Number(b));
    case "-":
      return String(Number(a) - Number(b));
    case "*":
      return String(Number(a) * Number(b));
    case "/":
      return String(Math.round((100 * Number(a)) / Number(b)) / 100);
    default:
      return "error: write two numbers with +, -, * or / between them";
  }
}

/** What calls and answers look like; which operation is right, and that a guess seldom is, they do not say. */
function shownReplies({ question }: WordProblem, i: number) {
  const asked = [
    { role: "system", content: instructions },
    { role: "user", content: question },
  ];
  const tools = [{ type: "function", function: { name: "calculator", description } }];
  const numbers = question.match(/\d+/g) ?? [];
  const [a, b] = i % 8 < 4 ? numbers : numbers.toReversed();
  const expression = `${a} ${"+-*/"[i % 4]} ${b}`;
  const call = `<tool_call>${JSON.stringify({ name: "calculator", arguments: { expression } })}</tool_call>`;
  const result = compute(expression);
  const called = [...asked, { role: "assistant", content: call }, { role: "tool", content: result }];
  return [
    { messages: asked, answer: `The answer is ${(7919 * (i + 1)) % 6000}.`, tools },
    { messages: asked, answer: call, tools },
    { messages: called, answer: `The answer is ${result}.`, tools },
  ];
}

const rows = (part: "training" | "held-out", count: number) => ({
  ...{ type: "rows" as const, schema: "plain" as const, fields: { question: "question", truth: "answer" } },
  rows: wordProblems(part, count, 1, "large"),
});

export const run = defineRun({
  name: "calculator-agent",
  model: { path: "models/SmolLM2-135M-Instruct-tools" },
  agent: solve,
  data: rows("training", 8192),
  rollout: { groupsPerStep: 16, groupSize: 8, maxInFlight: 128, contextLength: 384, sampling: { maxTokens: 48 } },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 2e-5 }, minibatch: 64, maxTokensPerMicrobatch: 16_384 },
  warmStart: {
    type: "data",
    data: { type: "rows", rows: wordProblems("training", 1024, 2, "large").flatMap(shownReplies) },
    steps: 30,
    rowsPerStep: 96,
    optimizer: { lr: 5e-5 },
  },
  loop: { type: "sync", steps: 40 },
  validation: { every: 10, prompts: 256, data: { ...rows("held-out", 256), name: "held-out" } },
});
