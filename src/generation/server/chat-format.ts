/** Answers of /v1/chat/completions, whole and in chunks. */
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import type { ReplyPart } from "../../chat/tool-calls/reply-part.ts";
import type { SampledTokens } from "../generate.ts";
import {
  type ChoiceResult,
  type ChoiceUpdate,
  finishFields,
  type ReplyFormat,
  tokenFields,
  type UsageFields,
} from "./reply-format.ts";
import { tokenText } from "./token-text.ts";

interface ChatFormatOptions {
  readonly tokenizer: Tokenizer;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly logprobs: boolean;
  readonly returnTokenIds: boolean;
  readonly includeUsage: boolean;
  /** Fields that only this server has, such as what the session's prefix check found. */
  readonly extensions: object;
}

export function createChatFormat(options: ChatFormatOptions): ReplyFormat {
  const { tokenizer, id, created, model, returnTokenIds, includeUsage, extensions } = options;
  const logprobsOf = (tokens: SampledTokens) => (options.logprobs ? chatLogprobs(tokenizer, tokens) : null);
  const chunk = (choices: readonly object[], more: object = {}) => ({
    ...{ id, object: "chat.completion.chunk", created, model, choices },
    ...(includeUsage && { usage: null }),
    ...more,
  });
  return {
    chunks: (update) => chatDeltas(update, logprobsOf, options).map(({ choice, more }) => chunk([choice], more)),
    end: (_, usage) => [...(includeUsage ? [chunk([], { usage })] : []), "[DONE]"],
    failure: (error) => ({ error }),
    whole: (results, usage) => wholeChat(results, usage),
  };

  function wholeChat(results: readonly ChoiceResult[], usage: UsageFields): object {
    return {
      ...{ id, object: "chat.completion", created, model },
      choices: results.map(({ choice, generation, visible }) => ({
        index: choice.index,
        message: messageOf(visible),
        logprobs: logprobsOf(generation),
        ...finishFields(generation.finish, visible.toolCalls.length > 0),
        ...(visible.numBrokenCalls > 0 && { malformed_tool_calls: visible.numBrokenCalls }),
        ...(returnTokenIds && tokenFields(generation)),
      })),
      usage,
      ...(returnTokenIds && { prompt_token_ids: [...(results[0]?.choice.promptIds ?? [])] }),
      ...extensions,
    };
  }
}

function messageOf({ content, reasoning, toolCalls }: ChoiceResult["visible"]): object {
  const thought = reasoning === "" ? {} : { reasoning_content: reasoning };
  if (toolCalls.length === 0) return { role: "assistant", content, ...thought, refusal: null };
  return {
    role: "assistant",
    content: content === "" ? null : content,
    ...thought,
    refusal: null,
    tool_calls: toolCalls,
  };
}

/** The parts of an update, each in a delta of its own; the tokens go with the first one. */
function chatDeltas(
  { choice, tokens, parts, finish, isFirst, hasToolCalls }: ChoiceUpdate,
  logprobsOf: (tokens: SampledTokens) => object | null,
  { logprobs, returnTokenIds, extensions }: ChatFormatOptions,
): readonly { choice: object; more: object }[] {
  const { index } = choice;
  const open = { index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
  const firstMore = { ...(returnTokenIds && { prompt_token_ids: [...choice.promptIds] }), ...extensions };
  const hasTokens = tokens.tokenIds.length > 0 && (logprobs || returnTokenIds);
  const deltas: object[] = parts.map(deltaOf);
  if (deltas.length === 0 && hasTokens) deltas.push({});
  const body = deltas.map((delta, position) => ({
    ...{ index, delta, logprobs: position === 0 ? logprobsOf(tokens) : null, finish_reason: null },
    ...(position === 0 && returnTokenIds && tokenFields(tokens)),
  }));
  const last =
    finish === undefined ? [] : [{ index, delta: {}, logprobs: null, ...finishFields(finish, hasToolCalls) }];
  return [
    ...(isFirst ? [{ choice: open, more: firstMore }] : []),
    ...[...body, ...last].map((choiceFields) => ({ choice: choiceFields, more: {} })),
  ];
}

function deltaOf(part: ReplyPart): object {
  if (part.kind === "text") return { content: part.text };
  if (part.kind === "reasoning") return { reasoning_content: part.text };
  return { tool_calls: [{ index: part.index, ...part.call }] };
}

/** Log-probs of tokens as OpenAI shows them. */
export function chatLogprobs(tokenizer: Tokenizer, tokens: SampledTokens) {
  const content = Array.from(tokens.tokenIds, (tokenId, position) => ({
    ...tokenText(tokenizer, tokenId),
    logprob: tokens.modelLogprobs[position],
    top_logprobs: (tokens.topLogprobs?.[position] ?? []).map((other) => ({
      ...tokenText(tokenizer, other.tokenId),
      logprob: other.logprob,
    })),
  }));
  return { content, refusal: null };
}
