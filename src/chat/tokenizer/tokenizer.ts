/**
 * Text to token ids and back.
 *
 * In: the files of a Hugging Face tokenizer. Out: ids and texts equal to those of transformers 5.
 * Encoding runs in `@huggingface/tokenizers` on settings made exact by `alignPreTokenizer`; decoding is our own, because
 * it must also work token by token. Decoding never "cleans up" spaces: that would change text the policy wrote.
 */

import { Tokenizer as LibraryTokenizer } from "@huggingface/tokenizers";
import { RerollError } from "../../errors/reroll-error.ts";
import { alignPreTokenizer } from "./align-pre-tokenizer.ts";
import { planDecoding } from "./decoding/plan-decoding.ts";
import { type DecodeOptions, type DecodeSource, IncrementalDecoder } from "./incremental-decoder.ts";
import { applyLlamaClass } from "./llama-class.ts";
import { parseTokenizerFiles } from "./parse-tokenizer-files.ts";
import { refuseUnsupported } from "./refuse-unsupported.ts";
import { completeAddedTokens, type NamedTokens, namedTokensOf } from "./special-tokens.ts";

export interface Tokenizer extends DecodeSource {
  /** The folder or file the tokenizer was loaded from, for error messages. */
  readonly name: string;
  /** One more than the highest id. A model's `vocab_size` may be larger, not smaller. */
  readonly vocabularySize: number;
  readonly bosId: number | undefined;
  /** The one end token of the tokenizer. Sampling stops at any of `stopIds`. */
  readonly eosId: number | undefined;
  readonly padId: number | undefined;
  /** Every id that ends a reply: those of generation_config.json, and `eosId`. */
  readonly stopIds: readonly number[];
  /** Ids that `skipSpecialTokens` leaves out. */
  readonly specialIds: ReadonlySet<number>;
  /** The named tokens as chat templates see them, such as `eos_token`. */
  readonly namedTokens: NamedTokens;
  /** Jinja sources by name; "default" when there is only one. */
  readonly chatTemplates: ReadonlyMap<string, string>;
  /** The files as they were read, by path in their folder, so that a checkpoint can carry them along. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  encode(text: string, options?: EncodeOptions): Int32Array;
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** The id of a token as the vocabulary spells it, which for byte-level ones is not its text. */
  idOf(token: string): number | undefined;
  tokenOf(id: number): string | undefined;
}

export interface EncodeOptions {
  /**
   * Adds what the tokenizer puts around a text, such as `<s>`. Default false: chat templates write these tokens
   * themselves, and adding them twice is a common bug. transformers has the other default.
   */
  readonly addSpecialTokens?: boolean;
}

/**
 * Builds a tokenizer from the content of its files, by path in their folder. Takes tenths of a second for a vocabulary
 * of 150k tokens; a worker thread needs its own, built from `files` of the first.
 */
export function createTokenizer(files: ReadonlyMap<string, Uint8Array>, name: string): Tokenizer {
  const { json, config, chatTemplates, generationEosIds } = parseTokenizerFiles(files, name);
  const pipeline = applyLlamaClass({ ...json, added_tokens: completeAddedTokens(json, config, name) }, config);
  refuseUnsupported(pipeline, name);
  const namedTokens = namedTokensOf(config);
  const library = buildLibrary(
    { ...pipeline, pre_tokenizer: pipeline.pre_tokenizer && alignPreTokenizer(pipeline.pre_tokenizer) },
    { ...config, ...namedTokens },
    name,
  );
  const idOf = (token: string | undefined) => (token === undefined ? undefined : library.token_to_id(token));
  const eosId = idOf(namedTokens.eos_token);
  const tokenizer: Tokenizer = {
    name,
    vocabularySize: library.model.vocab.length,
    bosId: idOf(namedTokens.bos_token),
    eosId,
    padId: idOf(namedTokens.pad_token),
    stopIds: [...new Set([...generationEosIds, ...(eosId === undefined ? [] : [eosId])])],
    specialIds: new Set(pipeline.added_tokens.filter((token) => token.special).map((token) => token.id)),
    namedTokens,
    chatTemplates,
    files,
    decodePlan: planDecoding(pipeline.decoder),
    encode: (text, { addSpecialTokens = false } = {}) =>
      Int32Array.from(library.encode(text, { add_special_tokens: addSpecialTokens }).ids),
    decode(ids, options) {
      const decoder = new IncrementalDecoder(tokenizer, options);
      return decoder.push(ids) + decoder.flush();
    },
    idOf,
    tokenOf: (id) => library.id_to_token(id),
  };
  return tokenizer;
}

/** The part of the library that is used here; the library's own types do not resolve under NodeNext. */
interface Library {
  readonly model: { readonly vocab: readonly string[] };
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
}

function buildLibrary(json: object, config: object, name: string): Library {
  try {
    return new LibraryTokenizer(json, config);
  } catch (cause) {
    throw new RerollError(
      "TOKENIZER_UNSUPPORTED",
      `${name}/tokenizer.json cannot be used: ${cause instanceof Error ? cause.message : String(cause)}. Tokenizers of the GPT-2, Llama, Qwen and Mistral families work; save this one again with a current transformers.`,
      { name },
      { cause },
    );
  }
}
