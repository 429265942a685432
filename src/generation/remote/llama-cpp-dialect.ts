/**
 * The llama.cpp server, over its own /completion endpoint.
 *
 * Fields as in its README and `server-context.cpp` (read in August 2026). It has no stop ids, so they are cut here: what
 * comes after one is thrown away. It leaves out the log-probs of tokens that end inside a character and of those that
 * make up a stop string; a reply with such a gap fails, and stop strings are refused. It does not stream here, because a
 * stream leaves such tokens out without a word.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish } from "../generate.ts";
import { type Dialect, lengthFinish, type RemoteCall, type RemoteEnding } from "./dialect.ts";
import type { HttpClient } from "./http-client.ts";
import { isUntouched, splitLogprobs } from "./logprob-meaning.ts";
import { refuseStatus, remoteFault } from "./remote-fault.ts";

const yes = { has: "yes" } as const;

export const llamaCppDialect: Dialect = {
  title: "llama.cpp",
  meanings: ["draw"],
  readFacts,
  capabilities: () => ({
    ...{ "token-ids-in": yes, "token-ids-out": yes },
    "sampler-logprobs": {
      has: "partly",
      note: "a reply with a token that ends inside a character fails, and truncated sampling is refused.",
    },
    "draw-logprobs": yes,
    "model-logprobs": { has: "partly", note: "they are NaN unless temperature is 1 and there are no filters." },
    "top-logprobs": { has: "partly", note: "only at temperature 1 without filters." },
    "stop-ids": {
      has: "partly",
      note: "the model's own end tokens end a reply too; for others it runs on to the limit and is cut.",
    },
    "stop-strings": { has: "no", note: "their tokens come without log-probs; use stop ids." },
    versions: { has: "no", note: "replies do not say them; the version that the caller gives is used." },
    "partial-replies": { has: "no", note: "a reply that is broken off loses its tokens." },
  }),
  refuse({ sampling, numTopLogprobs = 0 }) {
    if ((sampling.stopStrings?.length ?? 0) > 0) {
      throw unsupported("stopStrings", "It leaves out the log-probs of their tokens. Use stopIds.");
    }
    if (numTopLogprobs > 0 && !isUntouched(sampling)) {
      throw unsupported("numTopLogprobs", "Ask for them at temperature 1 without filters only.");
    }
  },
  run: runCompletion,
};

const propsSchema = z.object({
  default_generation_settings: z.object({ n_ctx: z.number() }),
  model_alias: z.string().nullish(),
  model_path: z.string().nullish(),
});

async function readFacts(http: HttpClient, model: string | undefined) {
  const response = await http.send({ method: "GET", path: "/props" });
  await refuseStatus(response);
  const parsed = propsSchema.safeParse(await response.json());
  if (!parsed.success) {
    throw new RerollError(
      "REMOTE_INCAPABLE",
      `${http.url}/props does not tell the context length. Is it a llama.cpp server?`,
    );
  }
  const { default_generation_settings: settings, model_alias: alias, model_path: path } = parsed.data;
  return { model: model ?? alias ?? path ?? "default", contextLength: settings.n_ctx };
}

const probabilitySchema = z.object({
  id: z.number(),
  prob: z.number(),
  top_probs: z.array(z.object({ id: z.number(), prob: z.number() })).default([]),
});

const completionSchema = z.object({
  tokens: z.array(z.number()),
  stop_type: z.string(),
  completion_probabilities: z.array(probabilitySchema).default([]),
  timings: z.object({ cache_n: z.number().nullish() }).nullish(),
});

type Completion = z.output<typeof completionSchema>;

async function runCompletion(call: RemoteCall): Promise<RemoteEnding> {
  const { http, signal } = call;
  const path = "/completion";
  const url = http.url + path;
  const response = await http.send({ method: "POST", path, body: bodyOf(call), ...(signal && { signal }) });
  await refuseStatus(response);
  const parsed = completionSchema.safeParse(await response.json());
  if (!parsed.success) throw remoteFault(`${url} sent an answer of another shape`);
  const completion = parsed.data;
  const cachedTokens = completion.timings?.cache_n ?? 0;
  const { tokens, completion_probabilities: probabilities } = completion;
  const hasGap = tokens.length !== probabilities.length || tokens.some((id, index) => id !== probabilities[index]?.id);
  if (hasGap)
    return { finish: { kind: "failed", error: logprobGap(tokens.length, probabilities.length) }, cachedTokens };
  const stopAt = tokens.findIndex((id) => call.request.sampling.stopIds?.includes(id));
  pushTokens(call, completion, stopAt === -1 ? tokens.length : stopAt + 1);
  return { finish: finishOf(call, completion, stopAt === -1 ? undefined : tokens[stopAt]), cachedTokens };
}

function bodyOf({ request, facts, maxTokens }: RemoteCall): object {
  const { sampling, numTopLogprobs = 0 } = request;
  return {
    prompt: Array.from(request.promptIds),
    n_predict: maxTokens,
    // In the order in which the other engines apply them.
    samplers: ["penalties", "temperature", "top_k", "top_p", "min_p"],
    temperature: sampling.temperature ?? 1,
    top_k: sampling.topK ?? 0,
    top_p: sampling.topP ?? 1,
    min_p: sampling.minP ?? 0,
    repeat_penalty: sampling.repetitionPenalty ?? 1,
    repeat_last_n: facts.contextLength,
    ...(sampling.logitBias && { logit_bias: [...sampling.logitBias] }),
    ...(sampling.seed !== undefined && { seed: sampling.seed >>> 0 }),
    n_probs: Math.max(1, numTopLogprobs),
    post_sampling_probs: true,
    return_tokens: true,
    cache_prompt: true,
    stream: false,
  };
}

function pushTokens(
  call: RemoteCall,
  { tokens, completion_probabilities: probabilities }: Completion,
  count: number,
): void {
  const { sampling, numTopLogprobs = 0 } = call.request;
  const kept = probabilities.slice(0, count);
  const logprobs = kept.map(({ prob }) => Math.log(prob));
  const versions = kept.map(() => call.version);
  call.push({
    tokenIds: tokens.slice(0, count),
    ...splitLogprobs(logprobs, call.meaning, sampling),
    versions,
    cacheVersions: versions,
    topLogprobs: kept.map(({ top_probs: likeliest }) =>
      likeliest.slice(0, numTopLogprobs).map(({ id, prob }) => ({ tokenId: id, logprob: Math.log(prob) })),
    ),
  });
}

function finishOf(call: RemoteCall, { tokens, stop_type: type }: Completion, stopId: number | undefined): Finish {
  if (stopId !== undefined) return { kind: "stop", by: "token", tokenId: stopId };
  return type === "limit" ? lengthFinish(call) : { kind: "stop", by: "token", tokenId: tokens.at(-1) ?? -1 };
}

function unsupported(name: string, remedy: string): RerollError {
  return new RerollError("REMOTE_INCAPABLE", `${name} is not supported with llama.cpp. ${remedy}`, { name });
}

function logprobGap(numTokens: number, numLogprobs: number): RerollError {
  return new RerollError(
    "REMOTE_LOGPROBS_UNKNOWN",
    `llama.cpp sent ${numTokens} tokens and ${numLogprobs} log-probs: it leaves out tokens that end inside a character. This reply cannot be trained on.`,
    { numTokens, numLogprobs },
  );
}
