/**
 * Tokenizers against transformers and llama.cpp, with the files of `../shared`. The bar is equality: of every id, every
 * decoded text and every rendered chat.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type ChatOptions, encodeChat, renderChat } from "../../src/chat/template/chat-template.ts";
import { IncrementalDecoder } from "../../src/chat/tokenizer/incremental-decoder.ts";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import type { Tokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import type { ChatMessage } from "../../src/flow/chat-message.ts";
import { anyText } from "../chat/any-text.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const shared = path.join(repository, "../shared");

const FOLDERS = [
  "tokenizers/gpt2",
  "tokenizers/mistral",
  "tokenizers/qwen2_5",
  "tokenizers/qwen3",
  "models/minimind2-small",
];
const tokenizers = new Map<string, Tokenizer>();
for (const folder of FOLDERS) {
  if (existsSync(path.join(shared, folder))) tokenizers.set(folder, await loadTokenizer(path.join(shared, folder)));
}

/** Describes tests of one tokenizer, or skips them with the name of the file that is missing. */
function describeTokenizer(folder: string, vectors: string, body: (tokenizer: Tokenizer) => void): void {
  const tokenizer = tokenizers.get(folder);
  const missing = tokenizer === undefined ? path.join(shared, folder) : vectors;
  if (tokenizer === undefined || !existsSync(vectors)) test.skip(`${folder}: ${missing} is missing`, () => {});
  else describe(folder, () => body(tokenizer));
}

interface ChatCase extends ChatOptions {
  readonly messages: readonly ChatMessage[];
  readonly text: string;
}
const tokenIds = z.array(z.int());
const chatCases = z.array(z.custom<ChatCase>()).default([]);
const goldenVectors = z.record(
  z.string(),
  z.object({
    cases: z.array(z.object({ text: z.string(), ids: tokenIds, idsWithSpecial: tokenIds, decoded: z.string() })),
    chat: chatCases,
  }),
);
const referenceVectors = z.record(
  z.string(),
  z.object({
    encode: z.array(z.object({ text: z.string(), ids: tokenIds })),
    decode: z.array(z.object({ ids: tokenIds, text: z.string(), textWithoutSpecial: z.string() })),
    chat: chatCases,
  }),
);

/** The vectors of one tokenizer. Fails when the file has none, so that no suite is empty by mistake. */
function readVectors<Vectors>(file: string, name: string, schema: z.ZodType<Record<string, Vectors>>): Vectors {
  const vectors = schema.parse(JSON.parse(readFileSync(file, "utf8")))[name];
  if (vectors === undefined) throw new Error(`${file} has no vectors for ${name}`);
  return vectors;
}

function testChats(tokenizer: Tokenizer, chats: readonly ChatCase[]): void {
  test.each(chats)("chat %#", ({ messages, text, ...options }) => {
    expect(renderChat(tokenizer, messages, options)).toBe(text);
    expect(encodeChat(tokenizer, messages, options)).toEqual(tokenizer.encode(text));
  });
}

describe("golden vectors of transformers 5.17", () => {
  const file = path.join(shared, "golden/tokenizers.json");
  for (const name of ["gpt2", "mistral", "qwen2_5", "qwen3"]) {
    describeTokenizer(`tokenizers/${name}`, file, (tokenizer) => {
      const { cases, chat } = readVectors(file, name, goldenVectors);
      test.each(cases)("ids and text of $text", ({ text, ids, idsWithSpecial, decoded }) => {
        expect([...tokenizer.encode(text)]).toEqual(ids);
        expect([...tokenizer.encode(text, { addSpecialTokens: true })]).toEqual(idsWithSpecial);
        expect(tokenizer.decode(ids)).toBe(decoded);
      });
      testChats(tokenizer, chat);
    });
  }
});

describe("random texts, random ids and chats of transformers 5.22", () => {
  const file = path.join(repository, "fixtures/tokenizer/reference/models.json");
  for (const folder of FOLDERS) {
    describeTokenizer(folder, file, (tokenizer) => {
      const { encode, decode, chat } = readVectors(file, folder, referenceVectors);
      test.each(encode)("ids of $text", ({ text, ids }) => {
        expect([...tokenizer.encode(text)]).toEqual(ids);
      });
      test.each(decode)("text of $ids", ({ ids, text, textWithoutSpecial }) => {
        expect(tokenizer.decode(ids)).toBe(text);
        expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe(textWithoutSpecial);
      });
      testChats(tokenizer, chat);
    });
  }
});

describe("test vectors of llama.cpp", () => {
  const vectors = { "gpt-2": "tokenizers/gpt2", qwen2: "tokenizers/qwen2_5" };
  for (const [name, folder] of Object.entries(vectors)) {
    const file = path.join(shared, "tokenizers/test-vectors", `ggml-vocab-${name}.gguf`);
    describeTokenizer(folder, `${file}.inp`, (tokenizer) => {
      const texts = readFileSync(`${file}.inp`, "utf8").split("\n__ggml_vocab_test__\n");
      const lines = readFileSync(`${file}.out`, "utf8").split("\n");
      test("there is a line of ids for each text", () => {
        expect(texts.length).toBe(47);
        expect(lines.length).toBe(47);
      });
      test.each(texts.map((text, index) => ({ text, line: lines[index] ?? "" })))("ids of $text", ({ text, line }) => {
        expect([...tokenizer.encode(text)].join(" ")).toBe(line.trim());
      });
    });
  }
});

describe("decoding token by token equals decoding at once", () => {
  for (const folder of FOLDERS) {
    describeTokenizer(folder, path.join(shared, folder), (tokenizer) => {
      const streamed = (ids: Iterable<number>) => {
        const decoder = new IncrementalDecoder(tokenizer);
        return Array.from(ids, (id) => decoder.push(id)).join("") + decoder.flush();
      };
      test("random ids", () => {
        fc.assert(
          fc.property(fc.array(fc.oneof(fc.nat(300), fc.nat(tokenizer.vocabularySize + 5))), (ids) => {
            expect(streamed(ids)).toBe(tokenizer.decode(ids));
          }),
        );
      });
      test("random text", () => {
        fc.assert(
          fc.property(anyText, (text) => {
            const ids = tokenizer.encode(text);
            expect(streamed(ids)).toBe(tokenizer.decode(ids));
          }),
        );
      });
    });
  }
});

describe("the tokenizer of a model folder", () => {
  const folder = "models/minimind2-small";
  describeTokenizer(folder, path.join(shared, folder), (tokenizer) => {
    test("knows its tokens and its files", () => {
      expect(tokenizer.vocabularySize).toBe(6400);
      expect([tokenizer.bosId, tokenizer.eosId, tokenizer.padId]).toEqual([1, 2, 0]);
      expect(tokenizer.stopIds).toEqual([2]);
      expect([...tokenizer.files.keys()]).toContain("special_tokens_map.json");
    });
    test("renders its chat template", () => {
      expect(renderChat(tokenizer, [{ role: "user", content: "Hi" }], { addGenerationPrompt: true })).toBe(
        "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
      );
    });
  });
});
