import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { fixtureFolder, makeTokenizerFiles } from "../../../fixtures/tokenizer/make-tokenizer.ts";
import { anyText } from "../../../test/chat/any-text.ts";
import { loadTokenizer } from "./load-tokenizer.ts";
import { createTokenizer } from "./tokenizer.ts";

const tokenizer = await loadTokenizer(fixtureFolder);
const reference = z
  .object({
    encode: z.array(z.object({ text: z.string(), ids: z.array(z.int()) })),
    decode: z.array(z.object({ ids: z.array(z.int()), text: z.string(), textWithoutSpecial: z.string() })),
  })
  .parse(JSON.parse(readFileSync(path.join(fixtureFolder, "reference/fixture.json"), "utf8")));

/** The fixture with some of its JSON files changed. */
function fixtureWith(changes: Readonly<Record<string, object>>): ReadonlyMap<string, Uint8Array> {
  const files = new Map([...makeTokenizerFiles()].map(([name, text]) => [name, new TextEncoder().encode(text)]));
  for (const [name, change] of Object.entries(changes)) {
    const content = JSON.parse(makeTokenizerFiles().get(name) ?? "{}");
    files.set(name, new TextEncoder().encode(JSON.stringify({ ...content, ...change })));
  }
  return files;
}

test("the files of the fixture are those that its script makes", async () => {
  for (const [name, text] of makeTokenizerFiles()) {
    expect(await readFile(path.join(fixtureFolder, name), "utf8")).toBe(text);
  }
});

test("ids are bytes, and special tokens follow", () => {
  expect([...tokenizer.encode("a\n<|im_end|>\u00e9")]).toEqual([97, 10, 258, 0xc3, 0xa9]);
  expect(tokenizer.decode([97, 10, 258, 0xc3, 0xa9])).toBe("a\n<|im_end|>\u00e9");
});

test("the facts about the vocabulary come from the files", () => {
  expect(tokenizer.vocabularySize).toBe(260);
  expect(tokenizer.bosId).toBeUndefined();
  expect(tokenizer.eosId).toBe(258);
  expect(tokenizer.padId).toBe(259);
  expect(tokenizer.stopIds).toEqual([258, 256]);
  expect([...tokenizer.specialIds]).toEqual([256, 257, 258, 259]);
  expect(tokenizer.idOf("<|im_start|>")).toBe(257);
  expect(tokenizer.tokenOf(257)).toBe("<|im_start|>");
  expect(tokenizer.idOf("no such token")).toBeUndefined();
  expect(tokenizer.tokenOf(260)).toBeUndefined();
});

test("a second tokenizer can be built from the files of the first", () => {
  expect([...tokenizer.files.keys()]).toEqual([
    "chat_template.jinja",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
  ]);
  expect(createTokenizer(tokenizer.files, "copy").encode("ok")).toEqual(tokenizer.encode("ok"));
});

test("special tokens are left out of the text on request", () => {
  expect(tokenizer.decode([257, 97, 258], { skipSpecialTokens: true })).toBe("a");
});

test("no ids decode to no text", () => {
  expect(tokenizer.decode([])).toBe("");
});

test("an id past the vocabulary decodes to nothing", () => {
  expect(tokenizer.decode([97, 300, 98])).toBe("ab");
});

test.each([-100, 1.5, Number.NaN])("%s is refused as an id", (id) => {
  expect(() => tokenizer.decode([id])).toThrow(`A token id must be a whole number of 0 or more: got ${id}.`);
});

test("every well-formed text comes back from its ids", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    }),
  );
});

describe("transformers gives the same for the fixture", () => {
  test.each(reference.encode)("ids of $text", ({ text, ids }) => {
    expect([...tokenizer.encode(text)]).toEqual(ids);
  });
  test.each(reference.decode)("text of $ids", ({ ids, text, textWithoutSpecial }) => {
    expect(tokenizer.decode(ids)).toBe(text);
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe(textWithoutSpecial);
  });
});

test("special tokens are added around the text on request", () => {
  const single = [{ SpecialToken: { id: "<|im_start|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }];
  const files = fixtureWith({ "tokenizer.json": { post_processor: { type: "TemplateProcessing", single, pair: [] } } });
  const withStart = createTokenizer(files, "with-start");
  expect([...withStart.encode("a", { addSpecialTokens: true })]).toEqual([257, 97]);
  expect([...withStart.encode("a")]).toEqual([97]);
});

test("a token that only tokenizer_config.json lists is found in text", () => {
  const added_tokens_decoder = { "300": { content: "<think>", special: false } };
  const files = fixtureWith({ "tokenizer_config.json": { added_tokens_decoder } });
  const withThink = createTokenizer(files, "with-think");
  expect([...withThink.encode("<think>a")]).toEqual([300, 97]);
  expect(withThink.vocabularySize).toBe(301);
  expect(withThink.specialIds.has(300)).toBe(false);
});

test("a token of the vocabulary that the config names becomes special", () => {
  const files = fixtureWith({ "tokenizer_config.json": { bos_token: { content: "A" } } });
  const withStart = createTokenizer(files, "with-start");
  expect(withStart.bosId).toBe(65);
  expect(withStart.decode([65, 66], { skipSpecialTokens: true })).toBe("B");
});

test("special_tokens_map.json fills in what the config leaves null", () => {
  const files = fixtureWith({ "special_tokens_map.json": { bos_token: "<|im_start|>", eos_token: "<|endoftext|>" } });
  const { bosId, eosId } = createTokenizer(files, "with-map");
  expect([bosId, eosId]).toEqual([257, 258]);
});

test("a named token without an id is refused", () => {
  const files = fixtureWith({ "tokenizer_config.json": { pad_token: "[PAD]" } });
  expect(() => createTokenizer(files, "model")).toThrow('model names "[PAD]" as pad_token, but its vocabulary has no');
});

test.each([
  ["a model with dropout", { model: { type: "BPE", vocab: {}, merges: [], dropout: 0.1 }, added_tokens: [] }],
  ["an added token with single_word", { added_tokens: [{ id: 300, content: "x", single_word: true }] }],
])("%s is refused, because its ids would be wrong", (reason, change) => {
  const files = fixtureWith({
    "tokenizer.json": change,
    "tokenizer_config.json": { eos_token: null, pad_token: null, additional_special_tokens: null },
  });
  expect(() => createTokenizer(files, "model")).toThrow(`model/tokenizer.json has ${reason}`);
});

test("a step that the library does not know is refused with its name", () => {
  const files = fixtureWith({ "tokenizer.json": { pre_tokenizer: { type: "UnicodeScripts" } } });
  expect(() => createTokenizer(files, "model")).toThrow("Unknown PreTokenizer type: UnicodeScripts");
});
