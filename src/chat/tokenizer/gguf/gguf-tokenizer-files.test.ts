import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { GgufHeader } from "../../../models/formats/gguf/gguf-header.ts";
import type { GgufValue } from "../../../models/formats/gguf/gguf-value.ts";
import { renderChat } from "../../template/chat-template.ts";
import { loadTokenizer } from "../load-tokenizer.ts";
import { createTokenizer } from "../tokenizer.ts";
import { ggufTokenizerFiles } from "./gguf-tokenizer-files.ts";

const fixture = new URL("../../../../fixtures/gguf/chat", import.meta.url).pathname;

function tokenizerOf(metadata: Readonly<Record<string, GgufValue>>) {
  const entries = Object.entries(metadata).map(([key, value]) => [`tokenizer.ggml.${key}`, value] as const);
  const header: GgufHeader = { version: 3, metadata: new Map(entries), tensors: new Map(), dataOffset: 0 };
  return createTokenizer(ggufTokenizerFiles(header, "x.gguf"), "x.gguf");
}

test("a byte-level vocabulary cuts and merges as Rust's library does, and brings its template and its ends", async () => {
  const tokenizer = await loadTokenizer(`${fixture}.gguf`);
  const rows: { text: string; ids: number[] }[] = JSON.parse(readFileSync(`${fixture}-tokens.json`, "utf8"));
  for (const { text, ids } of rows) {
    expect([...tokenizer.encode(text)], text).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(text);
  }
  expect(tokenizer.stopIds).toEqual([tokenizer.idOf("<|end|>")]);
  const messages = [{ role: "user", content: "hello" }] as const;
  expect(renderChat(tokenizer, messages, { addGenerationPrompt: true })).toBe(
    "<|start|>user\nhello<|end|>\n<|start|>assistant\n",
  );
});

/** Sentencepiece joins the pair with the best-scored result first: "ab" before "bc", so "abc" is "ab" and "c". */
const pieces = {
  model: "llama",
  tokens: ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "\u2581", "a", "b", "c", "ab", "bc", "\u2581ab"],
  token_type: Int32Array.of(2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1),
  scores: Float32Array.of(0, 0, 0, 0, 0, 0, -10, -11, -12, -13, -1, -2, -3),
  bos_token_id: 1,
  eos_token_id: 2,
  add_bos_token: true,
};

test("a sentencepiece vocabulary joins by scores, starts with a space, and writes unknown characters as bytes", () => {
  const tokenizer = tokenizerOf(pieces);
  expect([...tokenizer.encode("abc")]).toEqual([12, 9]);
  expect([...tokenizer.encode("c\n\u00e9")]).toEqual([6, 9, 3, 4, 5]);
  expect(tokenizer.decode([12, 9, 3, 4, 5])).toBe("abc\n\u00e9");
  expect([...tokenizer.encode("a", { addSpecialTokens: true })]).toEqual([1, 6, 7]);
  expect([...tokenizerOf({ ...pieces, add_space_prefix: false }).encode("abc")]).toEqual([10, 9]);
});

test("what would be cut by unknown rules is refused by name", () => {
  const bytes = { model: "gpt2", tokens: ["a"], token_type: Int32Array.of(1), merges: [] };
  expect(() => tokenizerOf({ ...bytes, pre: "deepseek-llm" })).toThrow(/cut by the rules of "deepseek-llm".*smollm/s);
  expect(() => tokenizerOf({ ...bytes, model: "bert" })).toThrow('a tokenizer of kind "bert"');
  expect(() => tokenizerOf({ ...bytes, token_type: Int32Array.of(1, 1) })).toThrow("1 tokens and the types of 2");
});
