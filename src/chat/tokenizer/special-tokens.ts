/**
 * Which tokens are special, and what they are called.
 *
 * In: the parsed files. Out: the named tokens, and the added tokens as transformers sees them: those of tokenizer.json,
 * plus those that only tokenizer_config.json lists, with every named token marked special.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import type { AddedToken, NamedToken, TokenizerConfig, TokenizerJson } from "./parse-tokenizer-files.ts";

/** The tokens a tokenizer has a name for, under the names that chat templates use. */
export type NamedTokens = Readonly<Partial<Record<NamedTokenKey, string>>>;
type NamedTokenKey = "bos_token" | "eos_token" | "pad_token" | "unk_token";

/** Reads the named tokens; one that is not set is left out. */
export function namedTokensOf(config: TokenizerConfig): NamedTokens {
  const named = NAMED_TOKEN_KEYS.map((key) => [key, contentOf(config[key])] as const);
  return Object.fromEntries(named.filter(([, content]) => content !== undefined));
}

/** Lists all added tokens. Throws when the config names a token that has no id. */
export function completeAddedTokens(json: TokenizerJson, config: TokenizerConfig, name: string): AddedToken[] {
  const tokens = new Map(json.added_tokens.map((token) => [token.content, token]));
  for (const [id, token] of Object.entries(config.added_tokens_decoder ?? {})) {
    if (!tokens.has(token.content)) tokens.set(token.content, { ...token, id: Number(id) });
  }
  const idInModel = vocabularyLookup(json.model.vocab);
  for (const [key, content] of specialContents(config)) {
    const token = tokens.get(content) ?? modelToken(content, idInModel(content));
    if (token !== undefined) tokens.set(content, { ...token, special: true });
    else if (key !== "unk_token") throw unknownToken(key, content, name);
  }
  return [...tokens.values()];
}

const NAMED_TOKEN_KEYS = ["bos_token", "eos_token", "pad_token", "unk_token"] as const;

function specialContents(config: TokenizerConfig): readonly (readonly [key: string, content: string])[] {
  const extra = (config.additional_special_tokens ?? []).map(contentOf).filter((content) => content !== undefined);
  return [
    ...Object.entries(namedTokensOf(config)),
    ...extra.map((content) => ["additional_special_tokens", content] as const),
  ];
}

function contentOf(token: NamedToken): string | undefined {
  return typeof token === "string" ? token : token?.content;
}

/** A token that the model's own vocabulary has and that text must now be searched for. */
function modelToken(content: string, id: number | undefined): AddedToken | undefined {
  if (id === undefined) return undefined;
  return { id, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false };
}

/** A vocabulary is a table from token to id, or for Unigram a list of [token, score] in the order of the ids. */
function vocabularyLookup(vocabulary: unknown): (token: string) => number | undefined {
  if (Array.isArray(vocabulary)) {
    const ids = new Map(vocabulary.map((entry: readonly unknown[], id) => [entry[0], id]));
    return (token) => ids.get(token);
  }
  return (token) => {
    const id = isTable(vocabulary) && Object.hasOwn(vocabulary, token) ? vocabulary[token] : undefined;
    return typeof id === "number" ? id : undefined;
  };
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function unknownToken(key: string, content: string, name: string): RerollError {
  return new RerollError(
    "TOKENIZER_BROKEN",
    `${name} names "${content}" as ${key}, but its vocabulary has no such token. Add it to added_tokens in tokenizer.json, or remove it from tokenizer_config.json and special_tokens_map.json.`,
    { key, content },
  );
}
