import { readFileSync } from "node:fs";
import { Tokenizer as LibraryTokenizer } from "@huggingface/tokenizers";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { alignPreTokenizer } from "./align-pre-tokenizer.ts";
import { type PipelineStep, pipelineStep } from "./pipeline-step.ts";

const referenceFile = new URL("../../../fixtures/tokenizer/reference/steps.json", import.meta.url);
const { preTokenizers } = z
  .object({
    preTokenizers: z.array(
      z.object({
        settings: pipelineStep,
        cases: z.array(z.object({ text: z.string(), pieces: z.array(z.string()) })),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(referenceFile, "utf8")));

/** Cuts a text with the library, which gets the step as it is given. */
function cut(step: PipelineStep, text: string): string[] {
  const model = { type: "BPE", vocab: {}, merges: [] };
  const steps = { normalizer: null, pre_tokenizer: step, post_processor: null, decoder: null };
  const library = new LibraryTokenizer({ added_tokens: [], model, ...steps }, {});
  return library.pre_tokenizer(text, { section_index: 0 });
}

describe("aligned pre-tokenizers cut as the Rust library does", () => {
  test.each(preTokenizers)("$settings", ({ settings, cases }) => {
    for (const { text, pieces } of cases) expect(cut(alignPreTokenizer(settings), text)).toEqual(pieces);
  });
});

test("a next-line character is a space for byte-level words and a byte-order mark is not", () => {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  const lengths = (text: string) => cut(alignPreTokenizer(byteLevel), text).map((piece) => piece.length);
  expect(lengths("a\u0085b")).toEqual([1, 2, 1]);
  expect(lengths("\ufeff!")).toEqual([4]);
});

test("an inverted split that merges is refused", () => {
  const step = { type: "Split", pattern: { String: "a" }, behavior: "MergedWithNext", invert: true };
  expect(() => alignPreTokenizer(step)).toThrow('inverted Split with behavior "MergedWithNext"');
});
