import { expect, test } from "vitest";
import { finalAnswer } from "./final-answer.ts";

test.each([
  { reply: "four", answer: "four" },
  { reply: "<think>hm</think>four", answer: "four" },
  { reply: "hm</think>four", answer: "four" },
  { reply: "<think>a</think>b<think>c</think>d", answer: "d" },
  { reply: "\n<think>never ends", answer: "" },
])("$reply answers '$answer'", ({ reply, answer }) => {
  expect(finalAnswer(reply)).toBe(answer);
});
