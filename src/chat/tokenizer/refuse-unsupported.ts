/** The settings of a tokenizer.json that `@huggingface/tokenizers` reads and then ignores, which would give wrong ids. */

import { RerollError } from "../../errors/reroll-error.ts";
import type { TokenizerJson } from "./parse-tokenizer-files.ts";

/** Throws when the file needs something that would silently be left out. */
export function refuseUnsupported({ model, added_tokens, normalizer }: TokenizerJson, name: string): void {
  const found = [
    model.type === "Unigram" && model.byte_fallback === true && "a Unigram model with byte_fallback",
    typeof model.continuing_subword_prefix === "string" &&
      model.continuing_subword_prefix !== "" &&
      model.type === "BPE" &&
      "a BPE model with continuing_subword_prefix",
    typeof model.dropout === "number" && model.dropout > 0 && "a model with dropout",
    added_tokens.some((token) => token.single_word) && "an added token with single_word",
    added_tokens.some((token) => token.normalized ?? !token.special) &&
      JSON.stringify(normalizer).includes('"Prepend"') &&
      "a normalized added token under a Prepend normalizer",
  ].filter((reason) => reason !== false);
  if (found.length === 0) return;
  throw new RerollError(
    "TOKENIZER_UNSUPPORTED",
    `${name}/tokenizer.json has ${found.join(" and ")}, which is not supported: its ids would be wrong. Use the tokenizer of the Llama, Qwen, Mistral or GPT-2 family that the model was trained with.`,
    { found },
  );
}
