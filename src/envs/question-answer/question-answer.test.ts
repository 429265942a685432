import { expect, test } from "vitest";
import type { Prompt } from "../../flow/prompt.ts";
import { checkEnv } from "../check-env.ts";
import { QuestionAnswerEnv, questionAnswer } from "./question-answer.ts";

const prompt: Prompt = {
  id: "gsm8k/0",
  domain: "math",
  seed: 0,
  messages: [
    { role: "user", content: "What is 1 + 1?" },
    { role: "assistant", content: "2" },
    { role: "user", content: "And twice that?" },
  ],
  truth: "4",
  extra: {},
};

test("the conversation is the prompt's, and one reply ends it", () => {
  const env = new QuestionAnswerEnv(prompt, {});
  expect(env.start()).toEqual({
    instructions: prompt.messages.slice(0, 2),
    observation: { messages: [{ role: "user", content: "And twice that?" }] },
  });
  const reply = { text: "4", isCut: false };
  expect(env.step(reply)).toEqual({ kind: "terminated", reward: 0, metrics: {} });
  expect(() => env.step(reply)).toThrow(/had ended/);
});

test("a reply that a limit cut off truncates the episode", () => {
  const env = new QuestionAnswerEnv(prompt, {});
  expect(env.step({ text: "It is", isCut: true })).toEqual({ kind: "truncated", reward: 0, metrics: {} });
});

test("the system text is added only where the prompt has none", () => {
  expect(new QuestionAnswerEnv(prompt, { system: "Be brief." }).start().instructions[0]).toEqual({
    role: "system",
    content: "Be brief.",
  });
  const own = { ...prompt, messages: [{ role: "system", content: "Own." }, ...prompt.messages] };
  expect(new QuestionAnswerEnv(own, { system: "Be brief." }).start().instructions).toEqual(own.messages.slice(0, 3));
});

test("a prompt without messages is refused", () => {
  expect(() => new QuestionAnswerEnv({ ...prompt, messages: [] }, {}).start()).toThrow(
    'Prompt "gsm8k/0" has no messages.',
  );
});

test("question answering keeps the promises of environments", async () => {
  expect(await checkEnv(questionAnswer.build({}), { prompts: [prompt] })).toEqual([]);
});
