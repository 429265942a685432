import { expect, test } from "vitest";
import { formatReward, THINK_ANSWER_FORMAT, THINK_FORMAT } from "./format.ts";

test.each([
  { text: "<think>\nhm\n</think>\nfour", isRight: true },
  { text: "<think></think>", isRight: true },
  { text: "four", isRight: false },
  { text: "so <think>hm</think> four", isRight: false },
  { text: "<think>hm</think> <think>again</think> four", isRight: false },
  { text: "<think>hm <think>again</think> four", isRight: false },
  { text: "<think>hm", isRight: false },
])("thoughts come first and once: $text", ({ text, isRight }) => {
  expect(formatReward(text, THINK_FORMAT, { match: 1, miss: 0 })).toBe(isRight ? 1 : 0);
});

test.each([
  { text: "<think>hm</think>\n<answer>4</answer>", isRight: true },
  { text: "<think>hm</think><answer>4</answer> done", isRight: false },
  { text: "<think>hm</think><answer>4</answer><answer>5</answer>", isRight: false },
  { text: "<answer>4</answer>", isRight: false },
])("an answer in tags follows the thoughts: $text", ({ text, isRight }) => {
  expect(formatReward(text, THINK_ANSWER_FORMAT)).toBe(isRight ? 0 : -1);
});

test("a pattern that remembers its place gives the same answer twice", () => {
  const pattern = /ok/g;
  expect([formatReward("ok", pattern), formatReward("ok", pattern)]).toEqual([0, 0]);
});

test("a long reply without an end is judged in little time", () => {
  const start = performance.now();
  formatReward(`<think>${"</think>".repeat(50_000)}${"a".repeat(200_000)}`, THINK_FORMAT);
  formatReward(`<think>${"a".repeat(200_000)}`, THINK_ANSWER_FORMAT);
  expect(performance.now() - start).toBeLessThan(2_000);
});
