/** Requests to /v1/completions: prompts as texts or as token ids. */
import { z } from "zod";
import type { Constraint } from "../generate.ts";
import { constraintOf, formatOf, guidedFields, responseFormat } from "./constraint-request.ts";
import { requestError } from "./openai-errors.ts";
import { flag, isTokenIds, readFields, unknownFields, wholeNumber } from "./request-fields.ts";
import { refuseFields, type SamplingFields, samplingFields } from "./sampling-request.ts";

export type CompletionPrompt = string | readonly number[];

export interface CompletionRequest {
  readonly fields: SamplingFields;
  /** Each is answered `n` times, in this order. */
  readonly prompts: readonly CompletionPrompt[];
  readonly maxTokens: number;
  /** Undefined: no log-probs. 0: those of the drawn tokens only. */
  readonly numTopLogprobs: number | undefined;
  /** Whether the log-probs of the prompts' own tokens are asked for. */
  readonly scoresPrompts: boolean;
  /** Whether tokens are shown as "token_id:N", as vLLM does, and not by their text. */
  readonly showsTokenIds: boolean;
  readonly ignoredFields: readonly string[];
  /** What the reply must look like; undefined for free text. */
  readonly constraint: Constraint | undefined;
}

/** OpenAI's default. */
const DEFAULT_MAX_TOKENS = 16;
const MAX_PROMPTS = 1024;

export function parseCompletionRequest(body: unknown): CompletionRequest {
  const fields = readFields(completionSchema, body);
  refuseFields(fields, { echo: [false], suffix: [""], prompt_embeds: [], prompt_logprobs: [0] });
  if (fields.prompt_logprobs !== undefined && fields.stream)
    throw requestError("stream", "stream cannot be true with prompt_logprobs, which come with the whole answer.");
  return {
    fields,
    prompts: promptsOf(fields.prompt),
    maxTokens: fields.max_tokens ?? DEFAULT_MAX_TOKENS,
    numTopLogprobs: fields.logprobs,
    scoresPrompts: fields.prompt_logprobs !== undefined,
    showsTokenIds: fields.return_tokens_as_token_ids ?? false,
    ignoredFields: unknownFields(completionSchema, fields),
    constraint: constraintOf(formatOf(fields), undefined, { choice: "none", isParallel: true }),
  };
}

const completionSchema = z.looseObject({
  ...samplingFields,
  prompt: z.custom<string | readonly unknown[]>(
    (value) => typeof value === "string" || Array.isArray(value),
    "a text, a list of texts, a list of token ids, or a list of such lists",
  ),
  logprobs: wholeNumber("a whole number from 0 to 20", 0, 20).optional(),
  return_tokens_as_token_ids: flag.optional(),
  prompt_logprobs: wholeNumber("0, for the tokens of the prompt and no others", 0, 0).optional(),
  ...guidedFields,
  response_format: responseFormat.optional(),
});

function promptsOf(prompt: string | readonly unknown[]): readonly CompletionPrompt[] {
  if (typeof prompt === "string") return [prompt];
  if (prompt.length === 0) throw requestError("prompt", "prompt must not be an empty list.");
  if (isTokenIds(prompt)) return [prompt];
  if (prompt.length > MAX_PROMPTS) {
    throw requestError("prompt", `prompt has ${prompt.length} entries, and ${MAX_PROMPTS} are allowed.`);
  }
  return prompt.map((entry, index) => {
    if (typeof entry === "string" || isTokenIds(entry)) return entry;
    const name = `prompt[${index}]`;
    throw requestError(name, `${name} must be a text or a list of token ids.`);
  });
}
