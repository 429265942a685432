import { expect, test } from "vitest";
import { encodeChat } from "../template/chat-template.ts";
import { createTokenizer } from "./tokenizer.ts";
import { wordTokenizerFiles } from "./word-tokenizer.ts";

const words = ["\n", "P", "_", "O", "G", "√", "Up", "<answer>", "</answer>"];
const tokenizer = createTokenizer(wordTokenizerFiles({ words, endWords: ["</answer>"] }), "words");

test("every word is one token, line breaks included, and spaces are none", () => {
  expect([...tokenizer.encode("P _\nO G √")]).toEqual([3, 4, 2, 5, 6, 7]);
  expect([...tokenizer.encode("<answer> Up </answer>")]).toEqual([9, 8, 10]);
  expect(tokenizer.decode([9, 8, 10])).toBe("<answer> Up </answer>");
});

test("an unknown word is the unknown token", () => {
  expect([...tokenizer.encode("P Q")]).toEqual([3, 1]);
});

test("the end word ends replies, and a conversation is its contents", () => {
  expect(tokenizer.stopIds).toEqual([10]);
  expect([...encodeChat(tokenizer, [{ role: "user", content: "P _" }], { addGenerationPrompt: true })]).toEqual([3, 4]);
});

test.each([
  [["a", "a"], /"a" is there twice/],
  [["a b"], /holds spaces/],
  [[""], /is empty/],
])("words %j are refused", (wrong, message) => {
  expect(() => wordTokenizerFiles({ words: wrong, endWords: [] })).toThrow(message);
});
