/** Answers of /v1/completions, whole and in chunks. */
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import type { SampledTokens } from "../generate.ts";
import { type Choice, finishFields, type ReplyFormat, tokenFields } from "./reply-format.ts";
import { tokenText } from "./token-text.ts";

interface CompletionFormatOptions {
  readonly tokenizer: Tokenizer;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly logprobs: boolean;
  /** Whether tokens are shown as "token_id:N" and not by their text. */
  readonly showsTokenIds: boolean;
  readonly returnTokenIds: boolean;
  readonly includeUsage: boolean;
  /** Fields that only this server has, such as what the session's prefix check found. */
  readonly extensions: object;
  /** Log-probs of the prompts' own tokens, where they were asked for. */
  readonly promptScores?: PromptScores;
}

/** Log-probs of the tokens of prompts, by prompt. */
export type PromptScores = ReadonlyMap<Int32Array, Float32Array>;

export function createCompletionFormat(options: CompletionFormatOptions): ReplyFormat {
  const { id, created, model, logprobs, returnTokenIds, includeUsage, extensions } = options;
  const textOffsets = new Map<number, number>();
  const logprobsOf = (choice: Choice, tokens: SampledTokens) =>
    logprobs ? completionLogprobs(options, textOffsets, choice, tokens) : null;
  const promptOf = (choice: Choice) => ({ prompt_token_ids: [...choice.promptIds] });
  const head = { id, object: "text_completion", created, model };
  return {
    chunks({ choice, tokens, parts, finish, isFirst }) {
      const text = parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
      const hasTokens = tokens.tokenIds.length > 0 && (logprobs || returnTokenIds);
      if (text === "" && !hasTokens && finish === undefined) return [];
      const fields = {
        ...{ index: choice.index, text, logprobs: logprobsOf(choice, tokens) },
        ...(finish === undefined ? { finish_reason: null } : finishFields(finish, false)),
        ...(returnTokenIds && { ...tokenFields(tokens), ...(isFirst && promptOf(choice)) }),
      };
      return [{ ...head, choices: [fields], ...(includeUsage && { usage: null }), ...(isFirst && extensions) }];
    },
    end: (_, usage) => [...(includeUsage ? [{ ...head, choices: [], usage }] : []), "[DONE]"],
    failure: (error) => ({ error }),
    whole: (results, usage) => ({
      ...head,
      choices: results.map(({ choice, generation, visible }) => ({
        ...{ index: choice.index, text: visible.content, logprobs: logprobsOf(choice, generation) },
        ...finishFields(generation.finish, false),
        ...(returnTokenIds && { ...tokenFields(generation), ...promptOf(choice) }),
        ...(options.promptScores && { prompt_logprobs: promptLogprobs(options, choice) }),
      })),
      usage,
      ...extensions,
    }),
  };
}

/** As vLLM writes them: an object per token with its id as the key, and null for the first. */
function promptLogprobs(
  { tokenizer, promptScores }: CompletionFormatOptions,
  { promptIds }: Choice,
): readonly unknown[] {
  const logprobs = promptScores?.get(promptIds);
  return Array.from(promptIds, (tokenId, i) => {
    const logprob = logprobs?.[i] ?? Number.NaN;
    if (Number.isNaN(logprob)) return null;
    return { [tokenId]: { logprob, decoded_token: tokenText(tokenizer, tokenId).token } };
  });
}

/** @param textOffsets by choice: where its next token begins in its text */
function completionLogprobs(
  { tokenizer, showsTokenIds }: CompletionFormatOptions,
  textOffsets: Map<number, number>,
  { index }: Choice,
  tokens: SampledTokens,
): object {
  const shown = (tokenId: number) => (showsTokenIds ? `token_id:${tokenId}` : tokenText(tokenizer, tokenId).token);
  const names = Array.from(tokens.tokenIds, shown);
  const offsets: number[] = [];
  for (const name of names) {
    const offset = textOffsets.get(index) ?? 0;
    offsets.push(offset);
    textOffsets.set(index, offset + name.length);
  }
  return {
    text_offset: offsets,
    tokens: names,
    token_logprobs: [...tokens.modelLogprobs],
    top_logprobs: (tokens.topLogprobs ?? []).map((likeliest) =>
      Object.fromEntries(likeliest.map(({ tokenId, logprob }) => [shown(tokenId), logprob])),
    ),
  };
}
