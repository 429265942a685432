/**
 * SGLang, over its own /generate endpoint.
 *
 * Fields as in SGLang's `io_struct.py` and `sampling_params.py` (read in August 2026). Log-probs are taken after
 * temperature and penalties but before filters; with filters, `return_sampling_mask` brings those of the distribution
 * drawn from as well. A stream repeats all tokens in every event, so it is only used when someone wants to see tokens come;
 * a reply that is broken off by /abort_request comes back with its tokens either way.
 */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish } from "../generate.ts";
import {
  asLostAdapter,
  type Dialect,
  expectRun,
  lengthFinish,
  type PromptScores,
  type RemoteCall,
  type RemoteEnding,
  type ScoreCall,
} from "./dialect.ts";
import { readEvents } from "./event-reader.ts";
import { parseJson } from "./http-client.ts";
import { hasFilters, splitLogprobs } from "./logprob-meaning.ts";
import { readModelFacts } from "./openai-dialect.ts";
import { refuseStatus, remoteFault, streamError } from "./remote-fault.ts";
import { sglangWeights } from "./sglang-weights.ts";

const yes = { has: "yes" } as const;
/** How long an aborted request may take to come back with its tokens. */
const ABORT_GRACE_MS = 5_000;

export const sglangDialect: Dialect = {
  title: "SGLang",
  meanings: ["model", "unfiltered"],
  remedies: { model: "Start it without SGLANG_RETURN_ORIGINAL_LOGPROB, or sample at temperature 1." },
  readFacts: readModelFacts,
  capabilities: (meaning) => ({
    ...{ "token-ids-in": yes, "token-ids-out": yes, "top-logprobs": yes, "stop-strings": yes, "partial-replies": yes },
    "sampler-logprobs":
      meaning === "unfiltered"
        ? { has: "partly", note: "sampling with penalties or bias is refused." }
        : {
            has: "partly",
            note: "it reports the model's own log-probs. Start it without SGLANG_RETURN_ORIGINAL_LOGPROB.",
          },
    "draw-logprobs": {
      has: "partly",
      note: "with topK, topP or minP they need a version that knows return_sampling_mask.",
    },
    "model-logprobs":
      meaning === "model"
        ? yes
        : { has: "partly", note: "they are NaN unless temperature is 1 and scores are unchanged." },
    "stop-ids": { has: "partly", note: "the model's own end tokens end a reply too, unless stopIds is empty." },
    versions: { has: "partly", note: "one per reply, and only where the server was told one with its weights." },
  }),
  refuse: () => {},
  run: runGenerate,
  scorePrompt,
  weights: sglangWeights,
};

const tokenLogprob = z.tuple([z.number().nullable(), z.number()]).rest(z.unknown());

const outputSchema = z.object({
  error: z.unknown().optional(),
  meta_info: z.object({
    completion_tokens: z.number(),
    cached_tokens: z.number().nullish(),
    weight_version: z.union([z.string(), z.number()]).nullish(),
    finish_reason: z
      .object({ type: z.string(), matched: z.union([z.string(), z.number()]).nullish(), message: z.string().nullish() })
      .nullish(),
    output_token_logprobs: z.array(tokenLogprob),
    output_token_sampling_logprobs: z.array(z.number().nullable()).nullish(),
    output_top_logprobs: z.array(z.array(tokenLogprob).nullable()).nullish(),
  }),
});

type MetaInfo = z.output<typeof outputSchema>["meta_info"];

async function runGenerate(call: RemoteCall): Promise<RemoteEnding> {
  const { http, request, signal } = call;
  const id = randomUUID();
  const path = "/generate";
  const url = http.url + path;
  const giveUp = new AbortController();
  let grace: NodeJS.Timeout | undefined;
  const abort = () => {
    grace = setTimeout(() => giveUp.abort(), ABORT_GRACE_MS);
    abortRemotely(call, id).catch(() => giveUp.abort());
  };
  signal?.addEventListener("abort", abort, { once: true });
  try {
    const response = await http.send({ method: "POST", path, body: bodyOf(call, id), signal: giveUp.signal });
    await refuseStatus(response).catch((cause) => Promise.reject(asLostAdapter(cause, call)));
    const outputs = request.onTokens === undefined ? [await response.text()] : readEvents(response.chunks(), url);
    let ending: RemoteEnding | undefined;
    for await (const output of outputs) {
      if (output !== "[DONE]") ending ??= takeOutput(readOutput(output, url), call, url);
    }
    if (ending === undefined) throw remoteFault(`${url} ended its answer before the reply was over`);
    return ending;
  } finally {
    clearTimeout(grace);
    signal?.removeEventListener("abort", abort);
  }
}

async function abortRemotely({ http }: RemoteCall, id: string): Promise<void> {
  const response = await http.send({ method: "POST", path: "/abort_request", body: { rid: id } });
  response.discard();
}

function bodyOf({ request, maxTokens, adapter }: RemoteCall, id: string): object {
  const { sampling, numTopLogprobs = 0, sessionId } = request;
  const stopIds = sampling.stopIds ?? [];
  return {
    rid: id,
    input_ids: Array.from(request.promptIds),
    ...(adapter !== undefined && { lora_path: adapter }),
    sampling_params: {
      max_new_tokens: maxTokens,
      temperature: sampling.temperature ?? 1,
      top_p: sampling.topP ?? 1,
      top_k: sampling.topK || -1,
      min_p: sampling.minP ?? 0,
      repetition_penalty: sampling.repetitionPenalty ?? 1,
      ...(sampling.logitBias && { logit_bias: Object.fromEntries(sampling.logitBias) }),
      stop: sampling.stopStrings ?? [],
      stop_token_ids: stopIds,
      // It would switch off stop_token_ids as well.
      ignore_eos: stopIds.length === 0,
      ...(sampling.seed !== undefined && { sampling_seed: sampling.seed }),
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      no_stop_trim: true,
    },
    return_logprob: true,
    top_logprobs_num: numTopLogprobs,
    ...(hasFilters(sampling) && { return_sampling_mask: true }),
    stream: request.onTokens !== undefined,
    ...(sessionId !== undefined && { session_id: sessionId }),
  };
}

function readOutput(data: string, url: string): MetaInfo {
  const value = parseJson(data, url);
  if (typeof value === "object" && value !== null && "error" in value) throw streamError(value.error, url);
  const parsed = outputSchema.safeParse(value);
  if (!parsed.success) throw remoteFault(`${url} sent an answer of another shape: ${data.slice(0, 80)}`);
  return parsed.data.meta_info;
}

/**
 * Takes what is new, and returns the ending once there is one. Lists hold all tokens, or only the last ones where the
 * server streams increments.
 */
function takeOutput(info: MetaInfo, call: RemoteCall, url: string): RemoteEnding | undefined {
  const listed = info.output_token_logprobs;
  const skipped = call.numTokens() - (info.completion_tokens - listed.length);
  const fresh = listed.slice(skipped);
  const { run, version } = readWeightVersion(info.weight_version);
  expectRun(call, run ?? call.run ?? "");
  const tokenIds = fresh.map(([, tokenId]) => tokenId);
  const { sampling } = call.request;
  const split = splitLogprobs(
    fresh.map(([logprob]) => logprob ?? Number.NaN),
    call.meaning,
    sampling,
  );
  const versions = tokenIds.map(() => (Number.isInteger(version) ? version : call.version));
  call.push({
    tokenIds,
    samplerLogprobs: split.samplerLogprobs,
    drawLogprobs: filteredLogprobs(info, skipped, call) ?? split.drawLogprobs,
    modelLogprobs: split.modelLogprobs,
    versions,
    // It waits for running requests before it loads weights.
    cacheVersions: versions,
    topLogprobs: info.output_top_logprobs
      ?.slice(skipped)
      .map((likeliest) => (likeliest ?? []).map(([logprob, tokenId]) => ({ tokenId, logprob: logprob ?? Number.NaN }))),
  });
  const finish = finishOf(info, call, url);
  return finish === undefined ? undefined : { finish, cachedTokens: info.cached_tokens ?? 0 };
}

/** The log-probs of what was drawn from, where filters make them differ; a list of their own, of versions that know it. */
function filteredLogprobs(info: MetaInfo, skipped: number, call: RemoteCall): readonly number[] | undefined {
  const { sampling } = call.request;
  if (!hasFilters(sampling) || sampling.temperature === 0) return undefined;
  const listed = info.output_token_sampling_logprobs?.slice(skipped);
  return listed?.map((logprob) => Math.min(0, logprob ?? Number.NaN));
}

const scoresSchema = z.object({ meta_info: z.object({ input_token_logprobs: z.array(tokenLogprob) }) });

/** Log-probs of the input, from its first token on; nothing is drawn. */
async function scorePrompt({ http, promptIds, signal }: ScoreCall): Promise<PromptScores> {
  const path = "/generate";
  const body = {
    input_ids: Array.from(promptIds),
    sampling_params: { max_new_tokens: 0, temperature: 1 },
    ...{ return_logprob: true, logprob_start_len: 0, return_text_in_logprobs: true },
  };
  const response = await http.send({ method: "POST", path, body, ...(signal && { signal }) });
  await refuseStatus(response);
  const listed = scoresSchema.safeParse(await response.json()).data?.meta_info.input_token_logprobs;
  if (listed?.length !== promptIds.length || listed.some(([, tokenId], i) => tokenId !== promptIds[i])) {
    throw new RerollError(
      "REMOTE_INCAPABLE",
      `${http.url}${path} did not return a log-prob for each token of a prompt.`,
    );
  }
  return {
    logprobs: Float32Array.from(listed, ([logprob]) => logprob ?? Number.NaN),
    texts: listed.map(([, , text]) => (typeof text === "string" ? text : null)),
  };
}

/** "<run>/<version>" as `sglangWeights` sets it, or whatever the server was started with. Undefined where it says nothing at all. */
function readWeightVersion(told: string | number | null | undefined): { run: string | undefined; version: number } {
  if (told === null || told === undefined) return { run: undefined, version: Number.NaN };
  const text = String(told);
  const slash = text.lastIndexOf("/");
  return { run: text.slice(0, Math.max(0, slash)), version: Number(text.slice(slash + 1)) };
}

function finishOf({ finish_reason: reason }: MetaInfo, call: RemoteCall, url: string): Finish | undefined {
  if (!reason) return undefined;
  if (reason.type === "length") return lengthFinish(call);
  if (reason.type === "stop") {
    const { matched } = reason;
    if (typeof matched === "string") return { kind: "stop", by: "string", text: matched };
    return { kind: "stop", by: "token", tokenId: matched ?? -1 };
  }
  // An abort that nobody here asked for is the server's: it is shedding load, or its weights are being changed.
  if (call.signal?.aborted || call.numTokens() > 0) return { kind: "aborted" };
  throw remoteFault(`${url} dropped the request: ${reason.message ?? reason.type}`);
}
