/**
 * vLLM, and our own server: /v1/completions with token ids in and out.
 *
 * Fields as in vLLM's `completion/protocol.py` (read in August 2026): `prompt` as ids, `return_token_ids`, `logprobs`,
 * `return_tokens_as_token_ids`, `stop_token_ids`, `ignore_eos`, `session_id`. Our server adds `sampler_logprobs`,
 * `draw_logprobs`, `model_logprobs`, `versions` and `cache_versions`, and says in a header whose weights it has. Replies are streamed, so that one that is broken off keeps its tokens.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish, TokenLogprob } from "../generate.ts";
import {
  asLostAdapter,
  type Dialect,
  expectRun,
  lengthFinish,
  type PromptScores,
  type RemoteCall,
  type RemoteEnding,
  type RemoteFacts,
  type ScoreCall,
} from "./dialect.ts";
import { readEvents } from "./event-reader.ts";
import { type HttpClient, type HttpResponse, parseJson } from "./http-client.ts";
import { splitLogprobs } from "./logprob-meaning.ts";
import { refuseStatus, remoteFault, streamError } from "./remote-fault.ts";
import type { ReportedTokens } from "./token-sink.ts";
import { vllmWeights } from "./vllm-weights.ts";
import { askRoute } from "./weight-routes.ts";

const yes = { has: "yes" } as const;
const STREAM_INTERVAL = 16;

/** Our own server says everything; its log-probs need no interpretation. */
export const rerollDialect: Dialect = {
  title: "reroll",
  meanings: ["draw"],
  reportsAll: true,
  readFacts: readModelFacts,
  capabilities: () => ({
    ...{ "token-ids-in": yes, "token-ids-out": yes },
    ...{ "sampler-logprobs": yes, "draw-logprobs": yes, "model-logprobs": yes },
    ...{ "top-logprobs": yes, "stop-ids": yes, "stop-strings": yes, versions: yes, "partial-replies": yes },
  }),
  refuse: () => {},
  // Said before the first token. A server that changes hands later ends its replies first.
  run: (call) => runCompletion(call, (response) => expectRun(call, response.header("x-reroll-run") ?? "")),
  scorePrompt: scoreCompletion,
  weights: {
    tellsRun: true,
    loadFolder: async (http, { folder, run, version, begins }) => {
      await askRoute(http, "/v1/weights", { body: { path: folder, version, run, begins } });
    },
  },
};

const RAW_LOGPROBS_REMEDY =
  "Sample at temperature 1, or start vLLM with --logprobs-mode processed_logprobs and sample without truncation.";

export const vllmDialect: Dialect = {
  title: "vLLM",
  meanings: ["model", "draw"],
  remedies: {
    model: RAW_LOGPROBS_REMEDY,
    draw: "Sample without truncation, or start vLLM with --logprobs-mode raw_logprobs and sample at temperature 1.",
  },
  readFacts: readModelFacts,
  capabilities: (meaning) => ({
    ...{ "token-ids-in": yes, "token-ids-out": yes, "stop-ids": yes, "stop-strings": yes, "partial-replies": yes },
    "sampler-logprobs":
      meaning === "draw"
        ? { has: "partly", note: "truncated sampling (topK, topP, minP, penalties, bias) is refused." }
        : { has: "partly", note: `it reports the model's own log-probs. ${RAW_LOGPROBS_REMEDY}` },
    "draw-logprobs":
      meaning === "draw" ? yes : { has: "partly", note: "they are NaN unless tokens are drawn from the model itself." },
    "model-logprobs":
      meaning === "draw"
        ? { has: "partly", note: "they are NaN unless temperature is 1 and there are no filters." }
        : yes,
    "top-logprobs":
      meaning === "draw"
        ? { has: "partly", note: "they are those of the distribution that tokens are drawn from." }
        : yes,
    versions: { has: "no", note: "replies do not say them; the version that the caller gives is used." },
  }),
  refuse: () => {},
  run: (call) => runCompletion(call),
  scorePrompt: scoreCompletion,
  weights: vllmWeights,
};

const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), max_model_len: z.number().nullish() })),
});

/** Reads /v1/models, which vLLM, SGLang and our server answer alike. */
export async function readModelFacts(http: HttpClient, model: string | undefined): Promise<RemoteFacts> {
  const response = await http.send({ method: "GET", path: "/v1/models" });
  await refuseStatus(response);
  const parsed = modelsSchema.safeParse(await response.json());
  const models = parsed.data?.data ?? [];
  const found = model === undefined ? models[0] : models.find(({ id }) => id === model);
  if (found === undefined) {
    const known = models.map(({ id }) => id).join(", ") || "none";
    throw new RerollError("MODEL_UNKNOWN", `${http.url} has no model ${model ?? ""}. It has: ${known}.`, {
      model,
      known,
    });
  }
  return { model: found.id, contextLength: found.max_model_len ?? Infinity };
}

const numbers = z.array(z.number());
/** JSON has no NaN. */
const logprobList = z.array(
  z
    .number()
    .nullable()
    .transform((value) => value ?? Number.NaN),
);

const choiceSchema = z.object({
  finish_reason: z.string().nullish(),
  stop_reason: z.union([z.string(), z.number()]).nullish(),
  token_ids: numbers.nullish(),
  logprobs: z
    .object({
      token_logprobs: logprobList,
      top_logprobs: z.array(z.record(z.string(), z.number()).nullable()).nullish(),
    })
    .nullish(),
  sampler_logprobs: logprobList.nullish(),
  draw_logprobs: logprobList.nullish(),
  model_logprobs: logprobList.nullish(),
  versions: numbers.nullish(),
  cache_versions: numbers.nullish(),
});

const chunkSchema = z.object({
  error: z.unknown().optional(),
  choices: z.array(choiceSchema).default([]),
  usage: z.object({ prompt_tokens_details: z.object({ cached_tokens: z.number().nullish() }).nullish() }).nullish(),
});

type CompletionChoice = z.output<typeof choiceSchema>;

/** @param expectWeights throws unless the server, by the head of its answer, has the weights of the run */
async function runCompletion(
  call: RemoteCall,
  expectWeights: (response: HttpResponse) => void = () => {},
): Promise<RemoteEnding> {
  const { http, signal } = call;
  const path = "/v1/completions";
  const url = http.url + path;
  const response = await http.send({ method: "POST", path, body: bodyOf(call), ...(signal && { signal }) });
  await refuseStatus(response).catch((cause) => Promise.reject(asLostAdapter(cause, call)));
  expectWeights(response);
  let finish: Finish | undefined;
  let cachedTokens = 0;
  for await (const data of readEvents(response.chunks(), url)) {
    if (data === "[DONE]") break;
    const chunk = readChunk(data, url);
    for (const choice of chunk.choices) {
      const tokens = tokensOf(choice, call, url);
      call.push(tokens);
      finish ??= finishOf(choice, tokens, call);
    }
    cachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens ?? cachedTokens;
  }
  if (finish === undefined) throw remoteFault(`${url} ended its answer before the reply was over`);
  return { finish, cachedTokens };
}

function bodyOf({ request, facts, maxTokens, adapter }: RemoteCall): object {
  const { sampling, numTopLogprobs = 0, sessionId } = request;
  return {
    model: adapter ?? facts.model,
    prompt: Array.from(request.promptIds),
    max_tokens: maxTokens,
    temperature: sampling.temperature ?? 1,
    top_p: sampling.topP ?? 1,
    top_k: sampling.topK || -1,
    min_p: sampling.minP ?? 0,
    repetition_penalty: sampling.repetitionPenalty ?? 1,
    ...(sampling.logitBias && { logit_bias: Object.fromEntries(sampling.logitBias) }),
    stop: sampling.stopStrings ?? [],
    stop_token_ids: sampling.stopIds ?? [],
    // Only what the request names ends a reply.
    ignore_eos: true,
    ...(sampling.seed !== undefined && { seed: sampling.seed }),
    logprobs: numTopLogprobs,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    skip_special_tokens: false,
    stream: true,
    stream_options: { include_usage: true },
    // Nobody watches: fewer and larger chunks cost less.
    ...(request.onTokens === undefined && { stream_interval: STREAM_INTERVAL }),
    ...(sessionId !== undefined && { session_id: sessionId }),
  };
}

function readChunk(data: string, url: string): z.output<typeof chunkSchema> {
  const parsed = chunkSchema.safeParse(parseJson(data, url));
  if (!parsed.success) throw remoteFault(`${url} sent a chunk of another shape: ${data.slice(0, 80)}`);
  if (parsed.data.error !== undefined) throw streamError(parsed.data.error, url);
  return parsed.data;
}

function tokensOf(choice: CompletionChoice, call: RemoteCall, url: string): ReportedTokens {
  const { token_ids: tokenIds, logprobs } = choice;
  if (!tokenIds) throw withoutTokenIds(url);
  const reported = logprobs?.token_logprobs ?? tokenIds.map(() => Number.NaN);
  const split = splitLogprobs(reported, call.meaning, call.request.sampling);
  const versions = choice.versions ?? tokenIds.map(() => call.version);
  const lists = {
    tokenIds,
    samplerLogprobs: choice.sampler_logprobs ?? split.samplerLogprobs,
    drawLogprobs: choice.draw_logprobs ?? split.drawLogprobs,
    modelLogprobs: choice.model_logprobs ?? split.modelLogprobs,
    versions,
    cacheVersions: choice.cache_versions ?? versions,
  };
  const lengths = Object.values(lists).map(({ length }) => length);
  if (lengths.some((length) => length !== tokenIds.length)) {
    throw remoteFault(
      `${url} sent ${tokenIds.length} tokens with ${lengths.slice(1).join(", ")} log-probs and versions`,
    );
  }
  return { ...lists, topLogprobs: topLogprobsOf(choice, call) };
}

/** vLLM adds the drawn token to the likeliest; the best ones are those that were asked for. */
function topLogprobsOf({ logprobs }: CompletionChoice, { request }: RemoteCall): ReportedTokens["topLogprobs"] {
  return logprobs?.top_logprobs?.map((byToken) => {
    const all = Object.entries(byToken ?? {}).map(([name, logprob]) => ({ tokenId: tokenIdOf(name), logprob }));
    return all.sort(byLogprob).slice(0, request.numTopLogprobs ?? 0);
  });
}

function byLogprob(left: TokenLogprob, right: TokenLogprob): number {
  return right.logprob - left.logprob || left.tokenId - right.tokenId;
}

function tokenIdOf(name: string): number {
  return Number(name.replace("token_id:", ""));
}

function finishOf(choice: CompletionChoice, tokens: ReportedTokens, call: RemoteCall): Finish | undefined {
  const { finish_reason: reason, stop_reason: stop } = choice;
  if (reason === null || reason === undefined) return undefined;
  if (reason === "abort") return { kind: "aborted" };
  if (reason === "length") return lengthFinish(call);
  if (typeof stop === "string") return { kind: "stop", by: "string", text: stop };
  return { kind: "stop", by: "token", tokenId: stop ?? tokens.tokenIds.at(-1) ?? -1 };
}

const scoresSchema = z.object({
  choices: z.tuple([
    z.object({
      prompt_logprobs: z.array(
        z
          .record(z.string(), z.object({ logprob: z.number().nullable(), decoded_token: z.string().nullish() }))
          .nullable(),
      ),
    }),
  ]),
});

/** vLLM's `prompt_logprobs` of 0: the tokens of the prompt and no others. It must draw a token, which nobody reads. */
async function scoreCompletion({ http, facts, promptIds, signal }: ScoreCall): Promise<PromptScores> {
  const path = "/v1/completions";
  const body = { model: facts.model, prompt: Array.from(promptIds), max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
  const response = await http.send({ method: "POST", path, body, ...(signal && { signal }) });
  await refuseStatus(response);
  const parsed = scoresSchema.safeParse(await response.json());
  const listed = parsed.data?.choices[0].prompt_logprobs;
  if (listed?.length !== promptIds.length) throw withoutScores(http.url + path);
  const scores = Array.from(promptIds, (tokenId, i) => listed[i]?.[tokenId]);
  return {
    logprobs: Float32Array.from(scores, (score) => score?.logprob ?? Number.NaN),
    texts: scores.map((score) => score?.decoded_token ?? null),
  };
}

function withoutScores(url: string): RerollError {
  return new RerollError(
    "REMOTE_INCAPABLE",
    `${url} does not say how likely the tokens of a prompt are, as a teacher must. Use a version of vLLM that knows prompt_logprobs.`,
    { url },
  );
}

function withoutTokenIds(url: string): RerollError {
  return new RerollError(
    "REMOTE_INCAPABLE",
    `${url} does not return token ids, and text cannot be trained on. Use a version of vLLM that knows return_token_ids.`,
    { url },
  );
}
