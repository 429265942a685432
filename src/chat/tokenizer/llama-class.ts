/**
 * The rule that transformers 5 applies to `tokenizer_class: LlamaTokenizer`.
 *
 * Such files hold an old pipeline that puts a space before every text. transformers replaces it by one that does so only
 * where the text does not start with a space already, so " \n" has other ids. We follow transformers, because the
 * engines that people compare with load their tokenizers through it. See docs/decisions/2026-11-15-tokenizer-reference.md.
 */

import { z } from "zod";
import type { TokenizerConfig, TokenizerJson } from "./parse-tokenizer-files.ts";

/** Returns the file with the pipeline of transformers' LlamaTokenizer, or unchanged when the rule does not apply. */
export function applyLlamaClass(json: TokenizerJson, config: TokenizerConfig): TokenizerJson {
  const isLlamaClass = config.tokenizer_class === "LlamaTokenizer" || config.tokenizer_class === "LlamaTokenizerFast";
  if (!isLlamaClass || json.pre_tokenizer !== null || !legacyNormalizer.safeParse(json.normalizer).success) return json;
  const addsPrefix = config.add_prefix_space ?? true;
  const scheme = config.legacy === true ? "always" : "first";
  return {
    ...json,
    normalizer: null,
    pre_tokenizer: {
      type: "Metaspace",
      replacement: WORD_START,
      prepend_scheme: addsPrefix ? scheme : "never",
      split: false,
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: WORD_START }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(addsPrefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: { ...json.model, fuse_unk: true, byte_fallback: true },
  };
}

/** The mark that sentencepiece puts where a word starts. */
const WORD_START = "\u2581";

const legacyNormalizer = z.object({
  type: z.literal("Sequence"),
  normalizers: z.tuple([
    z.object({ type: z.literal("Prepend"), prepend: z.literal(WORD_START) }),
    z.object({
      type: z.literal("Replace"),
      pattern: z.object({ String: z.literal(" ") }),
      content: z.literal(WORD_START),
    }),
  ]),
});
