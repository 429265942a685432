import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { IncrementalDecoder } from "../incremental-decoder.ts";
import { pipelineStep } from "../pipeline-step.ts";
import { planDecoding } from "./plan-decoding.ts";

const referenceFile = new URL("../../../../fixtures/tokenizer/reference/steps.json", import.meta.url);
const { decoders } = z
  .object({
    decoders: z.array(
      z.object({
        settings: pipelineStep.nullable(),
        cases: z.array(z.object({ tokens: z.array(z.string()), text: z.string() })),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(referenceFile, "utf8")));

/** A decoder whose ids are the positions in `tokens`. */
function decoderOf(settings: z.infer<typeof pipelineStep> | null, tokens: readonly string[]): IncrementalDecoder {
  return new IncrementalDecoder({
    tokenOf: (id) => tokens[id],
    specialIds: new Set(),
    decodePlan: planDecoding(settings),
  });
}

describe("decoders give what the Rust library gives, token by token", () => {
  test.each(decoders)("$settings", ({ settings, cases }) => {
    for (const { tokens, text } of cases) {
      const decoder = decoderOf(settings, tokens);
      const parts = tokens.map((_, id) => decoder.push(id));
      expect(parts.join("") + decoder.flush()).toBe(text);
    }
  });
});

const llamaDecoder = {
  type: "Sequence",
  decoders: [
    { type: "Replace", pattern: { String: "\u2581" }, content: " " },
    { type: "ByteFallback" },
    { type: "Fuse" },
    { type: "Strip", content: " ", start: 1, stop: 0 },
  ],
};

test("a sentencepiece decoder drops the first space once and keeps later ones", () => {
  const decoder = decoderOf(llamaDecoder, ["\u2581", "\u2581Hello", "\u2581you"]);
  expect([0, 1, 2].map((id) => decoder.push(id))).toEqual(["", " Hello", " you"]);
});

test("a run of byte tokens is held back until it ends", () => {
  const decoder = decoderOf(llamaDecoder, ["<0xC3>", "<0xA9>", "x"]);
  expect([0, 1, 2].map((id) => decoder.push(id))).toEqual(["", "", "\u00e9x"]);
});

test("every byte of a broken run becomes a replacement character", () => {
  const decoder = decoderOf(llamaDecoder, ["<0xC3>", "<0xA9>", "<0xFF>"]);
  expect(decoder.push([0, 1, 2]) + decoder.flush()).toBe("\ufffd\ufffd\ufffd");
});

test("a strip at the end of joined text holds back as many characters as it may cut", () => {
  const settings = {
    type: "Sequence",
    decoders: [{ type: "Fuse" }, { type: "Strip", content: " ", start: 0, stop: 2 }],
  };
  const decoder = decoderOf(settings, ["a   ", "b ", " "]);
  expect([0, 1, 2].map((id) => decoder.push(id))).toEqual(["a ", "  b", ""]);
  expect(decoder.flush()).toBe("");
});

test("a decoder of an unknown type is refused with the types that work", () => {
  expect(() => planDecoding({ type: "CTC" })).toThrow('decoder of type "CTC". Decoders that work here: ByteLevel');
});
