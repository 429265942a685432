/**
 * The part of a request that both completion routes share: how tokens are drawn and what comes back with them.
 *
 * Names are OpenAI's; those that OpenAI does not have (top_k, min_p, repetition_penalty, stop_token_ids, ignore_eos,
 * return_token_ids, stream_interval) are vLLM's.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Constraint, Sampling } from "../generate.ts";
import { requestError } from "./openai-errors.ts";
import { count, flag, isWithin, MAX_COUNT, numberBetween, text, tokenIds, wholeNumber } from "./request-fields.ts";

const MAX_STOP_STRINGS = 64;
/** What has been drawn is compared with every beginning of a stop string after every token. */
const MAX_STOP_LENGTH = 1024;
const isStop = (value: unknown) => typeof value === "string" && value !== "" && value.length <= MAX_STOP_LENGTH;
const isBias = (value: unknown) =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  Object.entries(value).every(([id, bias]) => /^\d+$/.test(id) && typeof bias === "number" && Math.abs(bias) <= 100);
const penalty = numberBetween("a number from -2 to 2", -2, 2);

/** Fields that change nothing here and that clients send all the time. */
const unusedFields = {
  user: z.unknown().optional(),
  metadata: z.unknown().optional(),
  store: z.unknown().optional(),
  service_tier: z.unknown().optional(),
  safety_identifier: z.unknown().optional(),
  prompt_cache_key: z.unknown().optional(),
};

/**
 * Numbers that single precision cannot tell from 0 or from infinity are refused: the scores are divided by the temperature and by the
 * penalty, and what comes out of that would be no number.
 */
export const samplingFields = {
  ...unusedFields,
  model: text.optional(),
  stream: flag.optional(),
  stream_options: z.looseObject({ include_usage: flag.optional() }, "an object").optional(),
  n: count.optional(),
  temperature: z
    .custom<number>((value) => value === 0 || isWithin(value, 1e-4, 1e4), "0, or a number from 0.0001 to 10000")
    .optional(),
  top_p: numberBetween("a number above 0 (at least 1e-9) and up to 1", 1e-9, 1).optional(),
  top_k: wholeNumber("a whole number up to 2147483647, -1 or 0 for all", -1, MAX_COUNT).optional(),
  min_p: numberBetween("a number from 0 to 1", 0, 1).optional(),
  repetition_penalty: numberBetween("a number from 0.0001 to 10000", 1e-4, 1e4).optional(),
  frequency_penalty: penalty.optional(),
  presence_penalty: penalty.optional(),
  seed: wholeNumber("a whole number from 0 to 2^53 - 1", 0).optional(),
  stop: z
    .custom<string | readonly string[]>(
      (value) => isStop(value) || (Array.isArray(value) && value.length <= MAX_STOP_STRINGS && value.every(isStop)),
      `a text that is not empty and has up to ${MAX_STOP_LENGTH} characters, or up to ${MAX_STOP_STRINGS} of them`,
    )
    .optional(),
  stop_token_ids: tokenIds("a list of up to 1024 token ids", 1024).optional(),
  ignore_eos: flag.optional(),
  logit_bias: z
    .custom<Readonly<Record<string, number>>>(isBias, "an object with numbers from -100 to 100 by token ids")
    .optional(),
  max_tokens: count.optional(),
  return_token_ids: flag.optional(),
  stream_interval: count.optional(),
  /** vLLM's name for what lets an engine keep its cache between calls. It records nothing. */
  session_id: z
    .custom<string>((value) => typeof value === "string" && value.length <= 256, "a text of up to 256 characters")
    .optional(),
};

/** Fields that would change the reply and that this server cannot serve, with the values that ask for nothing. */
const refusedFields: Readonly<Record<string, readonly unknown[]>> = {
  best_of: [1],
  use_beam_search: [false],
  min_tokens: [0],
  length_penalty: [1],
  bad_words: [],
  allowed_token_ids: [],
  prompt_logprobs: [],
  truncate_prompt_tokens: [],
  guided_grammar: [],
};

const samplingSchema = z.object(samplingFields);
export type SamplingFields = z.output<typeof samplingSchema>;

/** Throws for fields that the schema does not have but that must not be ignored. */
export function refuseFields(body: object, more: Readonly<Record<string, readonly unknown[]>>): void {
  for (const [name, harmless] of Object.entries({ ...refusedFields, ...more })) {
    const value: unknown = Reflect.get(body, name);
    const isEmpty = value === undefined || value === null || (Array.isArray(value) && value.length === 0);
    if (isEmpty || harmless.includes(value)) continue;
    throw requestError(name, `${name} is not supported by this server. Leave it out.`);
  }
}

/** How the server samples where a client says nothing, and whatever it says. */
export interface SamplingRules {
  /** What ends a reply when the client does not say. */
  readonly stopIds: readonly number[];
  /** Filters where the client asks for none. */
  readonly filters: SamplingFilters;
  /** Used instead of what the client asks for. */
  readonly overrides: SamplingOverrides;
  /** Told what a client asked for and does not get. */
  readonly onOverruled: (name: string, asked: number, used: number) => void;
}

export type SamplingFilters = Pick<Partial<Sampling>, "topK" | "topP" | "minP">;

/** Lets a trainer decide how an agent's model is sampled, whatever the agent asks for. `maxTokens` is the most that a reply may have. */
export type SamplingOverrides = SamplingFilters &
  Pick<Partial<Sampling>, "temperature" | "repetitionPenalty" | "maxTokens">;

export function samplingOf(
  fields: SamplingFields,
  maxTokens: number,
  rules: SamplingRules,
  constraint: Constraint | undefined,
): Sampling {
  const { overrides, filters, onOverruled } = rules;
  const { temperature, top_p: topP, top_k: topK, min_p: minP, repetition_penalty: repetitionPenalty, seed } = fields;
  const { frequency_penalty: frequencyPenalty, presence_penalty: presencePenalty } = fields;
  const stopIds = new Set([...(fields.ignore_eos ? [] : rules.stopIds), ...(fields.stop_token_ids ?? [])]);
  if (temperature !== undefined && overrides.temperature !== undefined && temperature !== overrides.temperature) {
    onOverruled("temperature", temperature, overrides.temperature);
  }
  return {
    ...filters,
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && { topK: Math.max(0, topK) }),
    ...(minP !== undefined && { minP }),
    ...(repetitionPenalty !== undefined && { repetitionPenalty }),
    ...(frequencyPenalty !== undefined && { frequencyPenalty }),
    ...(presencePenalty !== undefined && { presencePenalty }),
    ...(constraint !== undefined && { constraint }),
    ...(seed !== undefined && { seed }),
    ...(fields.logit_bias !== undefined && { logitBias: biasById(fields.logit_bias) }),
    stopIds: [...stopIds],
    stopStrings: typeof fields.stop === "string" ? [fields.stop] : (fields.stop ?? []),
    ...overrides,
    maxTokens: Math.min(maxTokens, overrides.maxTokens ?? Infinity),
  };
}

/** Throws unless the client asks for the model that is here, or the server answers to any name. */
export function checkModel(
  model: string | undefined,
  { modelName, acceptsAnyModel }: { readonly modelName: string; readonly acceptsAnyModel: boolean },
): void {
  if (model === undefined || model === modelName || acceptsAnyModel) return;
  throw new RerollError(
    "MODEL_UNKNOWN",
    `The model ${JSON.stringify(model)} does not exist. This server has ${JSON.stringify(modelName)}.`,
    { param: "model" },
  );
}

function biasById(bias: Readonly<Record<string, number>>): ReadonlyMap<number, number> {
  return new Map(Object.entries(bias).map(([id, value]) => [Number(id), value]));
}
