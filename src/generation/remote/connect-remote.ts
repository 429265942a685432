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
import { type Dialect, isWeightsLost, type RemoteFacts, weightsLost } from "./dialect.ts";
import { dialectOf, type RemoteKind } from "./dialects.ts";
import { HttpClient } from "./http-client.ts";
import { type LogprobMeaning, refuseUnknownLogprobs } from "./logprob-meaning.ts";
import { findMeaning, repeatsSeeds } from "./probe.ts";
import { isRemoteFault, retryAfterOf } from "./remote-fault.ts";
import type { GivenWeights } from "./remote-weights.ts";
import { createRetryDelays, type RetryOptions } from "./retry.ts";
import { isSinkFailure, TokenSink } from "./token-sink.ts";
import { QUIET_MS, Trial } from "./trial.ts";

export interface RemoteOptions extends StartOptions {
  readonly kind: RemoteKind;
  /** The version of the weights there, for servers that do not say it. Asked for every request. Default: what `weights` has published, or 0. */
  readonly version?: () => number;
  /** Where the server gets its weights from. Tokens of any others are not taken: a server that has lost these is given them again first. */
  readonly weights?: GivenWeights;
  /** The longest silence of the server that is waited for. Default 5 minutes. */
  readonly timeoutMs?: number;
  /** Requests beyond these wait. Default 256. */
  readonly maxConnections?: number;
  /** Called when the server answers, before it is tried out. What it throws ends the attempt to connect. */
  readonly prepare?: () => Promise<void>;
  /** What must be there. Default: what training needs, which is token ids in and out and sampler log-probs. */
  readonly required?: readonly CapabilityName[];
}

export interface RemoteEngine {
  readonly generate: Generate;
  readonly facts: RemoteFacts;
  readonly capabilities: Capabilities;
  /** What the server lacks, in whole or in part: one line each, for a person. */
  readonly missing: readonly string[];
  /** Throws where tokens drawn this way could not be trained on, since the server does not report the sampler's log-probs of them. */
  expectTrainable(sampling: Sampling): void;
  close(): void;
}

/** Connects to a server and tries out what it can do. Throws when something that is required is not there. */
export async function connectRemote(options: RemoteOptions): Promise<RemoteEngine> {
  const { url, timeoutMs = 300_000, maxConnections = 256, apiKey, required = REQUIRED_FOR_TRAINING, prepare } = options;
  const dialect = dialectOf(options.kind);
  const http = new HttpClient({ url, timeoutMs, maxConnections, ...(apiKey !== undefined && { apiKey }) });
  const { title } = dialect;
  const trial = new Trial({ title, url: http.url, limitMs: options.startMs, report: options.report });
  try {
    const facts = await readFacts(dialect, options);
    if (prepare !== undefined) await trial.ask("say whether it can be given weights", prepare);
    const generateAs = (meaning: LogprobMeaning) => createGenerate({ dialect, http, facts, meaning, options });
    const tryAs = (meaning: LogprobMeaning) => within(trial.signal, generateAs(meaning));
    const meaning = await trial.ask("draw a token", () => findMeaning(dialect.meanings, tryAs));
    const seed = await trial.ask("draw the same tokens twice", () => repeatsSeeds(tryAs(meaning)));
    const generate = generateAs(meaning);
    const capabilities = { ...dialect.capabilities(meaning), seed };
    requireCapabilities(capabilities, required, http.url);
    return {
      ...{ generate, facts, capabilities, missing: missingOf(capabilities) },
      expectTrainable: (sampling) => refuseUntrainable(dialect, meaning, sampling),
      close: () => http.close(),
    };
  } catch (cause) {
    http.close();
    throw cause;
  } finally {
    trial.end();
  }
}

/** The same, for requests that end with this signal. */
function within(signal: AbortSignal, generate: Generate): Generate {
  return (request) => generate({ ...request, signal });
}

/** How a server is found. */
export interface StartOptions extends RetryOptions {
  /** Such as http://127.0.0.1:8000. A path /v1 at its end is left out. */
  readonly url: string;
  readonly apiKey?: string;
  /** Default: the first model of the server. */
  readonly model?: string;
  /** How long one that does not answer yet is asked again, and the limit of its whole trial. Default: as often as for a reply, without a limit. */
  readonly startMs?: number;
  /** Told what is waited for, where that takes more than a second. */
  readonly report?: (text: string) => void;
}

/** What it says about itself costs a server nothing: one that is silent for so long is hung. */
const FACTS_MS = 10_000;

/** What a server says about itself. */
export async function readFacts(dialect: Dialect, options: StartOptions): Promise<RemoteFacts> {
  const { url, apiKey, model, startMs, report } = options;
  const delayOf = createRetryDelays(startMs === undefined ? options : { ...options, maxAttempts: Infinity });
  const timeoutMs = Math.min(FACTS_MS, startMs ?? FACTS_MS);
  const http = new HttpClient({ url, timeoutMs, maxConnections: 1, ...(apiKey !== undefined && { apiKey }) });
  const limit = new AbortController();
  const end = startMs === undefined ? undefined : setTimeout(() => limit.abort(), startMs);
  let reason = "";
  const until = startMs === undefined ? "" : ` for up to ${startMs / 1000} seconds`;
  const words = setTimeout(() => report?.(`Waiting for ${dialect.title} at ${http.url}${until}.${reason}`), QUIET_MS);
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        return await dialect.readFacts(http, model);
      } catch (cause) {
        if (!isRemoteFault(cause)) throw cause;
        const delayMs = delayOf(attempt, retryAfterOf(cause));
        if (delayMs === undefined || limit.signal.aborted) throw unavailable(dialect, attempt, cause);
        reason = ` ${cause.message}`;
        await sleepUnlessAborted(delayMs, limit.signal);
      }
    }
  } finally {
    clearTimeout(end);
    clearTimeout(words);
    http.close();
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
  // Who does without the sampler's log-probs, as for an evaluation, gets NaN for them.
  const needsLogprobs = (options.required ?? REQUIRED_FOR_TRAINING).includes("sampler-logprobs");
  return async (request) => {
    // The size of the vocabulary is not known here; the server checks it.
    checkRequest(request, { contextLength: facts.contextLength, vocabSize: Infinity });
    refuseFarBias(request.sampling);
    refuseLocalOnly(request.sampling);
    dialect.refuse(request);
    if (needsLogprobs) refuseUntrainable(dialect, meaning, request.sampling);
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

function refuseUntrainable(dialect: Dialect, meaning: LogprobMeaning, sampling: Sampling): void {
  if (!dialect.reportsAll) refuseUnknownLogprobs(meaning, sampling, dialect.title, dialect.remedies?.[meaning]);
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

/** Servers differ in what they make of these, and in which log-probs they then report. */
function refuseLocalOnly({ constraint, frequencyPenalty = 0, presencePenalty = 0 }: Sampling): void {
  const asked = [
    ...(constraint === undefined ? [] : ["constraint"]),
    ...(frequencyPenalty === 0 ? [] : ["frequencyPenalty"]),
    ...(presencePenalty === 0 ? [] : ["presencePenalty"]),
  ];
  if (asked.length === 0) return;
  throw new RerollError(
    "INVALID_REQUEST",
    `${asked.join(" and ")} needs the engine of this process: leave it out here.`,
  );
}

type Outcome =
  | { readonly kind: "ended"; readonly finish: Finish; readonly cachedTokens: number }
  | { readonly kind: "faulty"; readonly fault: RerollError };

/** Throws only for what makes the request one that can never work. */
async function attemptOnce(parts: GenerateParts, request: GenerateRequest, sink: TokenSink): Promise<Outcome> {
  const { dialect, http, facts, meaning, options } = parts;
  const { signal } = request;
  const aborted = { kind: "ended", finish: { kind: "aborted" }, cachedTokens: 0 } as const;
  const { weights } = options;
  try {
    await weights?.gate.whenOpen(signal);
  } catch (cause) {
    return failedBy(notTaken(http.url, cause));
  }
  if (signal?.aborted) return aborted;
  const announced = weights?.announced;
  const numLoads = weights?.numLoads ?? 0;
  const numChanges = weights?.gate.numChanges;
  try {
    if (weights?.isLost) throw weightsLost(http.url);
    const ending = await dialect.run({
      ...{ http, facts, request, meaning, signal, adapter: weights?.adapter },
      maxTokens: Math.min(request.sampling.maxTokens, facts.contextLength - request.promptIds.length),
      version: options.version?.() ?? announced?.version ?? 0,
      // Adapters have the run in their name.
      run: weights?.adapter === undefined ? announced?.run : undefined,
      push: (tokens) => {
        const hasBegun = sink.position > 0 || tokens.tokenIds.length === 0;
        if (!hasBegun && weights?.gate.numChanges !== numChanges) throw DRAWN_LATER;
        sink.push(tokens);
      },
      numTokens: () => sink.position,
    });
    return { kind: "ended", ...ending };
  } catch (cause) {
    if (signal?.aborted || cause === DRAWN_LATER) return aborted;
    if (isRemoteFault(cause)) return { kind: "faulty", fault: cause };
    if (isWeightsLost(cause)) return restoreWeights(weights!, numLoads, cause);
    if (cause instanceof RerollError && cause.code === "REMOTE_TAKEN") return failedBy(cause);
    if (isSinkFailure(cause)) return failedBy(cause);
    throw cause;
  }
}

/**
 * The first token of a reply came after a change of weights had begun, so it may be the new ones': the server got the request when it was stopped
 * already. As if the server had broken the reply off. Tokens that follow others are the old ones', since a server that stops ends its replies.
 */
const DRAWN_LATER = new Error("drawn by later weights");

/** Then the request goes on elsewhere. */
function notTaken(url: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new RerollError("REMOTE_UNAVAILABLE", `${url} has not taken its new weights: ${reason}`, {}, { cause });
}

/** Then the request is tried again; where the weights cannot be restored, it has failed. */
async function restoreWeights(weights: GivenWeights, numLoads: number, lost: RerollError): Promise<Outcome> {
  try {
    await weights.restore(numLoads);
    return { kind: "faulty", fault: lost };
  } catch (cause) {
    if (cause instanceof RerollError) return failedBy(cause);
    throw cause;
  }
}

function failedBy(error: RerollError): Outcome {
  return { kind: "ended", finish: { kind: "failed", error }, cachedTokens: 0 };
}

async function sleepUnlessAborted(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(delayMs, undefined, signal && { signal });
  } catch (cause) {
    // Waking up early is all that an abort does here; the next attempt sees it.
    if (!signal?.aborted) throw cause;
  }
}

/** The error of a server that was asked in vain. */
export function unavailable({ title }: Dialect, attempts: number, fault: RerollError): RerollError {
  return new RerollError(
    "REMOTE_UNAVAILABLE",
    `${title} did not answer in ${attempts} ${attempts === 1 ? "attempt" : "attempts"}. The last one: ${fault.message}`,
    { attempts },
    { cause: fault },
  );
}
