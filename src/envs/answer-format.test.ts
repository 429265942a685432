import fc from "fast-check";
import { expect, test } from "vitest";
import { readAnswer, readChoice, writeAnswer } from "./answer-format.ts";

const tags = { open: "<answer>", close: "</answer>" };
const words = ["Left", "Right"];

test("the answer is the trimmed text between the tags", () => {
  expect(readAnswer("I think. <answer>\n Right </answer> done", tags)).toBe("Right");
});

test("the last complete pair counts", () => {
  expect(readAnswer("<answer>Left</answer> no, <answer>Right</answer>", tags)).toBe("Right");
  expect(readAnswer("<answer>Left</answer> and <answer>Rig", tags)).toBe("Left");
  expect(readAnswer("<answer>one <answer>two</answer>", tags)).toBe("two");
});

test.each(["", "Right", "<answer>Right", "Right</answer>", "</answer>Right<answer>", "<answer</answer>"])(
  "nothing can be read from %j",
  (text) => expect(readAnswer(text, tags)).toBeNull(),
);

test("an empty pair of tags is an empty answer and none of the words", () => {
  expect(readAnswer("<answer></answer>", tags)).toBe("");
  expect(readChoice("<answer></answer>", tags, words)).toBeNull();
});

test("words are read in any case, and only whole", () => {
  expect(readChoice("<answer>rIGHT</answer>", tags, words)).toBe(1);
  expect(readChoice("<answer>go Right</answer>", tags, words)).toBeNull();
  expect(readChoice("<answer>Right Left</answer>", tags, words)).toBeNull();
});

test("an answer is written with spaces, and read back after any thought", () => {
  expect(writeAnswer("Right", tags)).toBe("<answer> Right </answer>");
  fc.assert(
    fc.property(fc.string(), fc.constantFrom(...words), (thought, word) => {
      expect(words[readChoice(`${thought}${writeAnswer(word, tags)}`, tags, words)!]).toBe(word);
    }),
  );
});
