/** How one kind of server is spoken to. A dialect is a file of its own and a line in dialects.ts. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish, GenerateRequest } from "../generate.ts";
import type { Capabilities } from "./capabilities.ts";
import type { HttpClient } from "./http-client.ts";
import type { LogprobMeaning } from "./logprob-meaning.ts";
import type { ReportedTokens } from "./token-sink.ts";
import type { WeightRoutes } from "./weight-routes.ts";

/** What a server says about itself. */
export interface RemoteFacts {
  readonly model: string;
  /** Tokens of prompt and reply together. */
  readonly contextLength: number;
}

/** One attempt at a request. */
export interface RemoteCall {
  readonly http: HttpClient;
  readonly facts: RemoteFacts;
  readonly request: GenerateRequest;
  /** What is asked of the server: no more than fits the context. */
  readonly maxTokens: number;
  readonly meaning: LogprobMeaning;
  /** The version of tokens of which the server does not say it. */
  readonly version: number;
  /** The run whose weights the server must have; undefined where any will do. Tokens of others must not be pushed: see `expectRun`. */
  readonly run: string | undefined;
  /** The adapters to draw with; undefined for the server's own weights. */
  readonly adapter: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Takes tokens in order. */
  push(tokens: ReportedTokens): void;
  /** Tokens that were taken in this attempt. */
  readonly numTokens: () => number;
}

export interface RemoteEnding {
  readonly finish: Finish;
  readonly cachedTokens: number;
}

/** One prompt to be measured. */
export interface ScoreCall {
  readonly http: HttpClient;
  readonly facts: RemoteFacts;
  readonly promptIds: Int32Array;
  readonly signal: AbortSignal | undefined;
}

/** What a server says about the tokens of a prompt. All lists have one entry per token. */
export interface PromptScores {
  /** Log-probs under the model at temperature 1; NaN for the first token. */
  readonly logprobs: Float32Array;
  /** The texts of the tokens as the server knows them; null where it does not say. */
  readonly texts: readonly (string | null)[];
}

export interface Dialect {
  /** How to call it in messages. */
  readonly title: string;
  /** What its log-probs can mean, depending on how the server was started. Where there are two, "model" is the first, and trying tells which it is. */
  readonly meanings: readonly [LogprobMeaning, LogprobMeaning?];
  /** Whether it reports every log-prob of a token by name, so that nothing has to be concluded from `meanings`. */
  readonly reportsAll?: boolean;
  /** What to do about log-probs that training cannot use, by what they mean. */
  readonly remedies?: Readonly<Partial<Record<LogprobMeaning, string>>>;
  readFacts(http: HttpClient, model: string | undefined): Promise<RemoteFacts>;
  /** What it can do, given what its log-probs mean. Things that need a trial are filled in later. */
  capabilities(meaning: LogprobMeaning): Omit<Capabilities, "seed">;
  /** Throws for a request that this kind of server cannot serve. */
  refuse(request: GenerateRequest): void;
  /** Throws REMOTE_FAULT for what may heal, anything else for what will not. */
  run(call: RemoteCall): Promise<RemoteEnding>;
  /** Measures the tokens of a prompt. Throws as `run` does. Absent where a server cannot: then it cannot be a teacher. */
  readonly scorePrompt?: (call: ScoreCall) => Promise<PromptScores>;
  /** How it is given weights. Absent where it cannot be: then it cannot be trained with. */
  readonly weights?: WeightRoutes;
}

/** How a reply ended that reached a limit: the one that was asked for, or the end of the context. */
export function lengthFinish({ request, numTokens }: RemoteCall): Finish {
  return { kind: "length", limit: numTokens() >= request.sampling.maxTokens ? "max-tokens" : "context" };
}

/**
 * Throws unless the server has the weights of this run. A server that has started again has those of no run, and gets them again;
 * one that another run has taken over stays that run's.
 *
 * @param told the run of the weights that the server has; "" for none
 */
export function expectRun({ http, run }: RemoteCall, told: string): void {
  if (run === undefined || told === run) return;
  if (told === "") throw weightsLost(http.url);
  throw takenOver(http.url);
}

/** A server has ended since it was given weights: it gets them again before anything is taken from it. */
export function weightsLost(url: string): RerollError {
  return new RerollError(WEIGHTS_LOST, `${url} has started again and lost the weights of this run.`, {});
}

/** Where a server refuses a request for its adapters, which it names, it has lost them. */
export function asLostAdapter(cause: unknown, { http, adapter }: RemoteCall): unknown {
  const isRefusal = cause instanceof RerollError && cause.code === "REMOTE_REFUSED";
  return isRefusal && adapter !== undefined && cause.message.includes(adapter) ? weightsLost(http.url) : cause;
}

/** The end of a run whose server was given to another one. */
export function takenOver(url: string): RerollError {
  return new RerollError(
    "REMOTE_TAKEN",
    `${url} has been given the weights of another run since this one began. A server samples for one run at a time: stop one of them, or give each its own server.`,
    { url },
  );
}

const WEIGHTS_LOST = "REMOTE_WEIGHTS_LOST";

/** Whether a reply was refused because its server has to be given the weights of the run again. */
export function isWeightsLost(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && cause.code === WEIGHTS_LOST;
}
