/** How one kind of server is spoken to. */
import type { Finish, GenerateRequest } from "../generate.ts";
import type { Capabilities } from "./capabilities.ts";
import type { HttpClient } from "./http-client.ts";
import type { LogprobMeaning } from "./logprob-meaning.ts";
import type { ReportedTokens } from "./token-sink.ts";

export type RemoteKind = "reroll" | "vllm" | "sglang" | "llama-cpp";

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

export interface Dialect {
  readonly kind: RemoteKind;
  /** How to call it in messages. */
  readonly title: string;
  /** Undefined: it is found out by trying. */
  readonly meaning: LogprobMeaning | undefined;
  readFacts(http: HttpClient, model: string | undefined): Promise<RemoteFacts>;
  /** What it can do, given what its log-probs mean. Things that need a trial are filled in later. */
  capabilities(meaning: LogprobMeaning): Omit<Capabilities, "seed">;
  /** Throws for a request that this kind of server cannot serve. */
  refuse(request: GenerateRequest, meaning: LogprobMeaning): void;
  /** Throws REMOTE_FAULT for what may heal, anything else for what will not. */
  run(call: RemoteCall): Promise<RemoteEnding>;
}

/** How a reply ended that reached a limit: the one that was asked for, or the end of the context. */
export function lengthFinish({ request, numTokens }: RemoteCall): Finish {
  return { kind: "length", limit: numTokens() >= request.sampling.maxTokens ? "max-tokens" : "context" };
}
