import fc from "fast-check";
import { expect, test } from "vitest";
import { fixtureFolder } from "../../../fixtures/tokenizer/make-tokenizer.ts";
import { anyText } from "../../../test/chat/any-text.ts";
import { planDecoding } from "./decoding/plan-decoding.ts";
import { type DecodeSource, IncrementalDecoder } from "./incremental-decoder.ts";
import { loadTokenizer } from "./load-tokenizer.ts";

const tokenizer = await loadTokenizer(fixtureFolder);

/** A small sentencepiece-like vocabulary: word starts, byte tokens and a special token. */
const pieces = ["\u2581", "\u2581a", "b", " ", "<|end|>", ...Array.from({ length: 256 }, (_, byte) => byteToken(byte))];
const sentencepiece: DecodeSource = {
  tokenOf: (id) => pieces[id],
  specialIds: new Set([4]),
  decodePlan: planDecoding({
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "\u2581" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 1 },
    ],
  }),
};

function byteToken(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

function decodeAll(source: DecodeSource, ids: readonly number[], skipSpecialTokens: boolean): string {
  const decoder = new IncrementalDecoder(source, { skipSpecialTokens });
  return decoder.push(ids) + decoder.flush();
}

const sources = [
  { name: "byte-level", source: tokenizer, ids: fc.array(fc.integer({ min: 0, max: 262 })) },
  { name: "sentencepiece", source: sentencepiece, ids: fc.array(fc.oneof(fc.nat(5), fc.nat(262))) },
];

test("an emoji of four tokens comes out with the last one", () => {
  const decoder = new IncrementalDecoder(tokenizer);
  expect([...tokenizer.encode("a\u{1f680}b")].map((id) => decoder.push(id))).toEqual([
    "a",
    "",
    "",
    "",
    "\u{1f680}",
    "b",
  ]);
});

test("a character that is cut off comes out on flush, and the decoder starts anew", () => {
  const decoder = new IncrementalDecoder(tokenizer);
  expect(decoder.push([0xf0, 0x9f])).toBe("");
  expect(decoder.flush()).toBe("\ufffd");
  expect(decoder.push(97)).toBe("a");
});

test("a special token inside a character ends it", () => {
  const decoder = new IncrementalDecoder(tokenizer);
  expect([0xc3, 258, 0xa9].map((id) => decoder.push(id))).toEqual(["", "\ufffd<|im_end|>", "\ufffd"]);
});

test("a special token that is left out does not end a character", () => {
  const decoder = new IncrementalDecoder(tokenizer, { skipSpecialTokens: true });
  expect([0xc3, 258, 0xa9].map((id) => decoder.push(id))).toEqual(["", "", "\u00e9"]);
});

test.each(sources)("$name: pushes and flush, joined, are the text of all ids at once", ({ source, ids }) => {
  fc.assert(
    fc.property(ids, fc.boolean(), (row, skipSpecialTokens) => {
      const decoder = new IncrementalDecoder(source, { skipSpecialTokens });
      const streamed = row.map((id) => decoder.push(id)).join("") + decoder.flush();
      expect(streamed).toBe(decodeAll(source, row, skipSpecialTokens));
    }),
  );
});

test.each(sources)("$name: what was pushed out stays true however the ids go on", ({ source, ids }) => {
  fc.assert(
    fc.property(ids, ids, fc.boolean(), (row, continuation, skipSpecialTokens) => {
      const certain = new IncrementalDecoder(source, { skipSpecialTokens }).push(row);
      const whole = decodeAll(source, [...row, ...continuation], skipSpecialTokens);
      expect(whole.startsWith(certain)).toBe(true);
    }),
  );
});

test("random text streamed byte by byte comes back whole", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const decoder = new IncrementalDecoder(tokenizer);
      const parts = [...tokenizer.encode(text)].map((id) => decoder.push(id));
      expect(parts.join("") + decoder.flush()).toBe(text);
    }),
  );
});

test("each id is looked up once at most, however many follow", () => {
  let lookups = 0;
  const counting: DecodeSource = {
    ...tokenizer,
    tokenOf(id) {
      lookups++;
      return tokenizer.tokenOf(id);
    },
  };
  const decoder = new IncrementalDecoder(counting);
  const text = Array.from({ length: 1000 }, () => decoder.push(97)).join("");
  expect(text).toBe("a".repeat(1000));
  expect(lookups).toBeGreaterThan(0);
  expect(lookups).toBeLessThanOrEqual(1000);
});

test("a long reply with characters of several tokens in it reads as it does token by token", () => {
  const text = `${"word by word ".repeat(6000)}caf\u00e9 ${"\ud83d\ude00".repeat(3)} ${"and on ".repeat(4000)}`;
  const ids = tokenizer.encode(text);
  const decoder = new IncrementalDecoder(tokenizer);
  expect(decoder.push(ids) + decoder.flush()).toBe(text);
  const streamed = new IncrementalDecoder(tokenizer);
  expect([...ids].map((id) => streamed.push(id)).join("") + streamed.flush()).toBe(text);
});

test("nothing of a reply with an id that is none is found in the next one", () => {
  const ids = tokenizer.encode("words");
  tokenizer.decode(ids);
  expect(() => tokenizer.decode(Int32Array.of(...ids, -100))).toThrow(/got -100/);
  expect(tokenizer.decode(ids)).toBe("words");
});
