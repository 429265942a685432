/** What the routes that sample have in common in their answers: choices, finish reasons, usage, extensions. */

import type { ReadReply } from "../../chat/reply-reader.ts";
import type { ReplyPart } from "../../chat/tool-calls/reply-part.ts";
import type { Finish, Generation, SampledTokens, Sampling, Usage } from "../generate.ts";
import type { OpenAiError } from "./openai-errors.ts";

/** One reply that was asked for. */
export interface Choice {
  readonly index: number;
  readonly promptIds: Int32Array;
  readonly sampling: Sampling;
  readonly numTopLogprobs: number;
  /** Under which name the engine keeps the cache of this reply. */
  readonly cacheKey: string | undefined;
}

export interface ChoiceResult {
  readonly choice: Choice;
  readonly generation: Generation;
  readonly visible: ReadReply;
}

/** What has become certain of a choice since its last chunk. */
export interface ChoiceUpdate {
  readonly choice: Choice;
  readonly tokens: SampledTokens;
  readonly parts: readonly ReplyPart[];
  /** Present in the last update. */
  readonly finish: Finish | undefined;
  readonly isFirst: boolean;
  readonly hasToolCalls: boolean;
}

/** How a route writes its answers. */
export interface ReplyFormat {
  /** The chunks of a stream that tell an update; none when there is nothing to tell. */
  chunks(update: ChoiceUpdate): readonly object[];
  /** What a stream ends with. */
  end(results: readonly ChoiceResult[], usage: UsageFields): readonly StreamEvent[];
  /** What a client is told that already reads the stream. */
  failure(error: OpenAiError): object;
  whole(results: readonly ChoiceResult[], usage: UsageFields): object;
}

/** One event of a stream. Where it has a `type`, the event is named after it. */
export type StreamEvent = object | "[DONE]";

export interface UsageFields {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Adds up what was used. The prompt of several choices counts once: only the first of them had to read it. */
export function usageOf(results: readonly ChoiceResult[]): UsageFields {
  const byPrompt = new Map<Int32Array, Usage>();
  for (const { choice, generation } of results) {
    const { promptIds } = choice;
    const { usage } = generation;
    const other = byPrompt.get(promptIds);
    if (other === undefined || usage.cachedTokens < other.cachedTokens) byPrompt.set(promptIds, usage);
  }
  const prompts = [...byPrompt.values()];
  const promptTokens = prompts.reduce((sum, usage) => sum + usage.promptTokens, 0);
  const replyTokens = results.reduce((sum, { generation }) => sum + generation.usage.generatedTokens, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: replyTokens,
    total_tokens: promptTokens + replyTokens,
    prompt_tokens_details: { cached_tokens: prompts.reduce((sum, usage) => sum + usage.cachedTokens, 0) },
  };
}

/** `finish_reason`, and vLLM's `stop_reason`: the stop string or the token that ended the reply. */
export function finishFields(finish: Finish, hasToolCalls: boolean) {
  return { finish_reason: finishReason(finish, hasToolCalls), stop_reason: stopReason(finish) };
}

/** The tokens themselves, under vLLM's name, with what only this server knows of them. */
export function tokenFields(tokens: SampledTokens) {
  return {
    token_ids: [...tokens.tokenIds],
    sampler_logprobs: [...tokens.samplerLogprobs],
    draw_logprobs: [...tokens.drawLogprobs],
    model_logprobs: [...tokens.modelLogprobs],
    versions: [...tokens.versions],
    cache_versions: [...tokens.cacheVersions],
  };
}

function finishReason(finish: Finish, hasToolCalls: boolean): string {
  switch (finish.kind) {
    case "stop":
      return hasToolCalls ? "tool_calls" : "stop";
    case "length":
      return "length";
    case "aborted":
      return "abort";
    case "failed":
      return "error";
  }
}

function stopReason(finish: Finish): string | number | null {
  if (finish.kind !== "stop") return null;
  return finish.by === "token" ? finish.tokenId : finish.text;
}
