/**
 * Engines on other machines, behind the same `Generate` type.
 *
 * In: the kind of server and where it is. Out: `generate`, and what the server can do. The server is tried out first, so
 * that one that cannot be trained with fails at the start. Requests are tried again after faults that may heal; when
 * they do not, the reply ends with `finish: failed`. Waits for: a free connection; nothing is queued here.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { RerollError } from "../../errors/reroll-error.ts";
import { checkRequest } from "../check-request.ts";
import type { Finish, Generate, GenerateRequest, Sampling } from "../generate.ts";
import {
  type Capabilities,
  type CapabilityName,
  missingOf,
  REQUIRED_FOR_TRAINING,
  requireCapabilities,
} from "./capabilities.ts";
import type { Dialect, RemoteFacts, RemoteKind } from "./dialect.ts";
import { HttpClient } from "./http-client.ts";
import { llamaCppDialect } from "./llama-cpp-dialect.ts";
import type { LogprobMeaning } from "./logprob-meaning.ts";
import { rerollDialect, vllmDialect } from "./openai-dialect.ts";
import { findMeaning, repeatsSeeds } from "./probe.ts";
import { isRemoteFault, retryAfterOf } from "./remote-fault.ts";
import { createRetryDelays, type RetryOptions } from "./retry.ts";
import { sglangDialect } from "./sglang-dialect.ts";
import { isSinkFailure, TokenSink } from "./token-sink.ts";

export interface RemoteOptions extends RetryOptions {
  readonly kind: RemoteKind;
  /** Such as http://127.0.0.1:8000. A path /v1 at its end is left out. */
  readonly url: string;
  readonly apiKey?: string;
  /** Default: the first model of the server. */
  readonly model?: string;
  /** The version of the weights there, for servers that do not say it. Asked for every request. Default: always 0. */
  readonly version?: () => number;
  /** The longest silence of the server that is waited for. Default 5 minutes. */
  readonly timeoutMs?: number;
  /** Requests beyond these wait. Default 256. */
  readonly maxConnections?: number;
  /** What must be there. Default: what training needs, which is token ids in and out and sampler log-probs. */
  readonly required?: readonly CapabilityName[];
}

export interface RemoteEngine {
  readonly generate: Generate;
  readonly facts: RemoteFacts;
  readonly capabilities: Capabilities;
  /** What the server lacks, in whole or in part: one line each, for a person. */
  readonly missing: readonly string[];
  close(): void;
}

/** Connects to a server and tries out what it can do. Throws when something that is required is not there. */
export async function connectRemote(options: RemoteOptions): Promise<RemoteEngine> {
  const { url, timeoutMs = 300_000, maxConnections = 256, apiKey, required = REQUIRED_FOR_TRAINING } = options;
  const dialect = dialectOf(options.kind);
  const http = new HttpClient({ url, timeoutMs, maxConnections, ...(apiKey !== undefined && { apiKey }) });
  try {
    const facts = await readFacts(dialect, http, options);
    const generateAs = (meaning: LogprobMeaning) => createGenerate({ dialect, http, facts, meaning, options });
    const meaning = dialect.meaning ?? (await findMeaning(dialect.kind, generateAs));
    const generate = generateAs(meaning);
    const capabilities = { ...dialect.capabilities(meaning), seed: await repeatsSeeds(generate) };
    requireCapabilities(capabilities, required, http.url);
    return { generate, facts, capabilities, missing: missingOf(capabilities), close: () => http.close() };
  } catch (cause) {
    http.close();
    throw cause;
  }
}

const DIALECTS: Readonly<Record<RemoteKind, Dialect>> = {
  reroll: rerollDialect,
  vllm: vllmDialect,
  sglang: sglangDialect,
  "llama-cpp": llamaCppDialect,
};

function dialectOf(kind: RemoteKind): Dialect {
  if (Object.hasOwn(DIALECTS, kind)) return DIALECTS[kind];
  const known = Object.keys(DIALECTS).join(", ");
  throw new RerollError("INVALID_OPTION", `connectRemote has no kind "${kind}". Kinds: ${known}.`, { kind });
}

/** A server that is starting up gets the same patience as one that is busy. */
async function readFacts(dialect: Dialect, http: HttpClient, options: RemoteOptions): Promise<RemoteFacts> {
  const delayOf = createRetryDelays(options);
  for (let attempt = 1; ; attempt++) {
    try {
      return await dialect.readFacts(http, options.model);
    } catch (cause) {
      if (!isRemoteFault(cause)) throw cause;
      const delayMs = delayOf(attempt, retryAfterOf(cause));
      if (delayMs === undefined) throw unavailable(dialect, attempt, cause);
      await sleep(delayMs);
    }
  }
}

interface GenerateParts {
  readonly dialect: Dialect;
  readonly http: HttpClient;
  readonly facts: RemoteFacts;
  readonly meaning: LogprobMeaning;
  readonly options: RemoteOptions;
}

function createGenerate(parts: GenerateParts): Generate {
  const { dialect, facts, meaning, options } = parts;
  const delayOf = createRetryDelays(options);
  return async (request) => {
    // The size of the vocabulary is not known here; the server checks it.
    checkRequest(request, { contextLength: facts.contextLength, vocabSize: Infinity });
    refuseFarBias(request.sampling);
    dialect.refuse(request, meaning);
    const sink = new TokenSink(request);
    for (let attempt = 1; ; attempt++) {
      const outcome = await attemptOnce(parts, request, sink);
      if (outcome.kind === "ended") return sink.result(outcome.finish, outcome.cachedTokens);
      const delayMs = sink.canRestart ? delayOf(attempt, retryAfterOf(outcome.fault)) : undefined;
      if (delayMs === undefined) {
        return sink.result({ kind: "failed", error: unavailable(dialect, attempt, outcome.fault) }, 0);
      }
      await sleepUnlessAborted(delayMs, request.signal);
      sink.restart();
    }
  };
}

/** JSON has no infinity, and servers cut larger values off without a word. */
function refuseFarBias({ logitBias = new Map() }: Sampling): void {
  for (const [tokenId, bias] of logitBias) {
    if (Math.abs(bias) <= 100) continue;
    throw new RerollError(
      "INVALID_REQUEST",
      `logitBias has ${tokenId}: ${bias}. Remote servers take -100 to 100; -100 is as good as never.`,
      { tokenId, bias },
    );
  }
}

type Outcome =
  | { readonly kind: "ended"; readonly finish: Finish; readonly cachedTokens: number }
  | { readonly kind: "faulty"; readonly fault: RerollError };

/** Throws only for what makes the request one that can never work. */
async function attemptOnce(parts: GenerateParts, request: GenerateRequest, sink: TokenSink): Promise<Outcome> {
  const { dialect, http, facts, meaning, options } = parts;
  const { signal } = request;
  const aborted = { kind: "ended", finish: { kind: "aborted" }, cachedTokens: 0 } as const;
  if (signal?.aborted) return aborted;
  try {
    const ending = await dialect.run({
      ...{ http, facts, request, meaning, signal },
      maxTokens: Math.min(request.sampling.maxTokens, facts.contextLength - request.promptIds.length),
      version: options.version?.() ?? 0,
      push: (tokens) => sink.push(tokens),
      numTokens: () => sink.position,
    });
    return { kind: "ended", ...ending };
  } catch (cause) {
    if (signal?.aborted) return aborted;
    if (isRemoteFault(cause)) return { kind: "faulty", fault: cause };
    if (isSinkFailure(cause)) return { kind: "ended", finish: { kind: "failed", error: cause }, cachedTokens: 0 };
    throw cause;
  }
}

async function sleepUnlessAborted(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(delayMs, undefined, signal && { signal });
  } catch (cause) {
    // Waking up early is all that an abort does here; the next attempt sees it.
    if (!signal?.aborted) throw cause;
  }
}

function unavailable({ title }: Dialect, attempts: number, fault: RerollError): RerollError {
  return new RerollError(
    "REMOTE_UNAVAILABLE",
    `${title} did not answer in ${attempts} ${attempts === 1 ? "attempt" : "attempts"}. The last one: ${fault.message}`,
    { attempts },
    { cause: fault },
  );
}
