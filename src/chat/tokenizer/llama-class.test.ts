import { expect, test } from "vitest";
import { createTokenizer, type Tokenizer } from "./tokenizer.ts";

const vocabulary = ["<unk>", "<s>", "\u2581", "\u2581\u2581", "\u2581a", "a"];
const normalizers = [
  { type: "Prepend", prepend: "\u2581" },
  { type: "Replace", pattern: { String: " " }, content: "\u2581" },
];

/** A tokenizer with the pipeline that Llama 2 and Mistral 7B files hold. */
function legacyTokenizer(config: object): Tokenizer {
  const files = {
    "tokenizer.json": {
      added_tokens: [{ id: 1, content: "<s>", special: true, normalized: false }],
      normalizer: { type: "Sequence", normalizers },
      decoder: { type: "Replace", pattern: { String: "\u2581" }, content: " " },
      model: {
        type: "BPE",
        unk_token: "<unk>",
        vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
        merges: [
          ["\u2581", "\u2581"],
          ["\u2581", "a"],
        ],
      },
    },
    "tokenizer_config.json": config,
  };
  return createTokenizer(new Map(Object.entries(files).map(([name, file]) => [name, bytesOf(file)])), "legacy");
}

function bytesOf(file: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(file));
}

function tokens(tokenizer: Tokenizer, text: string): (string | undefined)[] {
  return [...tokenizer.encode(text)].map((id) => tokenizer.tokenOf(id));
}

test("without the class, every text gets a space in front", () => {
  const tokenizer = legacyTokenizer({});
  expect(tokens(tokenizer, "a")).toEqual(["\u2581a"]);
  expect(tokens(tokenizer, " a")).toEqual(["\u2581\u2581", "a"]);
});

test("with the class, a text that starts with a space gets no second one", () => {
  const tokenizer = legacyTokenizer({ tokenizer_class: "LlamaTokenizer", legacy: true });
  expect(tokens(tokenizer, "a")).toEqual(["\u2581a"]);
  expect(tokens(tokenizer, " a")).toEqual(["\u2581a"]);
});

test("text after a special token gets a space only in legacy mode", () => {
  const legacy = legacyTokenizer({ tokenizer_class: "LlamaTokenizer", legacy: true });
  const current = legacyTokenizer({ tokenizer_class: "LlamaTokenizerFast" });
  expect(tokens(legacy, "<s>a")).toEqual(["<s>", "\u2581a"]);
  expect(tokens(current, "<s>a")).toEqual(["<s>", "a"]);
});

test("without a prefix space, none is added and none is cut", () => {
  const tokenizer = legacyTokenizer({ tokenizer_class: "LlamaTokenizer", add_prefix_space: false });
  expect(tokens(tokenizer, "a")).toEqual(["a"]);
  expect(tokenizer.decode(tokenizer.encode(" a"))).toBe(" a");
});
