/** What the server is built from, and what its routes share. */

import type { PromptEncoder } from "../../chat/prompt-encoder.ts";
import type { ReplyIndex } from "../../chat/reply-index.ts";
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import type { ServedEngine } from "../engine.ts";
import type { Calls } from "./calls.ts";
import type { ResponseStore } from "./responses/response-store.ts";
import type { SamplingFilters, SamplingOverrides, SamplingRules } from "./sampling-request.ts";
import type { ServerMetrics } from "./server-metrics.ts";
import type { SessionLimits, Sessions } from "./sessions.ts";

export interface ServerParts {
  readonly engine: ServedEngine;
  readonly tokenizer: Tokenizer;
  /** The name that clients ask for. */
  readonly modelName: string;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** A new text every time, of letters, digits and dashes. */
  readonly newId: () => string;
  /** Told of failures that are the server's own. */
  readonly onError: (cause: unknown) => void;
  /** Where a trainer in another process may give new weights. Needs an API key. */
  readonly weights?: WeightLoading;
}

/** How new weights come into the engine, from files. */
export interface WeightLoading {
  /** The folder that they must lie in. */
  readonly root: string;
  /** Resolves when tokens are drawn with the weights of this folder. */
  readonly load: (folder: string, version: number) => Promise<void>;
}

export interface ServerOptions {
  /** What clients have to send as bearer token. Default: none, and then the server binds to this machine only. */
  readonly apiKey?: string;
  /** Default 4 MiB. */
  readonly maxBodyBytes?: number;
  /** Requests for tokens at the same time; more are told to come back. Default 1024. */
  readonly maxInFlight?: number;
  /** The most that `n` may ask for, times the number of prompts. Default 128. */
  readonly maxChoices?: number;
  /** What a client that is sent away is told to wait. Default 1. */
  readonly retryAfterSeconds?: number;
  /** A client that reads nothing of its answer for this long is cut off. Default 60 seconds. */
  readonly stallTimeoutMs?: number;
  readonly samplingOverrides?: SamplingOverrides;
  /** Filters for clients that ask for none. */
  readonly samplingFilters?: SamplingFilters;
  /** Told once of each setting that clients ask for and `samplingOverrides` has the last word on. */
  readonly onOverruled?: (message: string) => void;
  readonly sessions?: SessionLimits;
  /** Answers to whatever model clients name: an agent keeps the name it was written with. Default false: another name is refused. */
  readonly acceptsAnyModel?: boolean;
}

/** Changes with the weights. `run` is what the trainer calls itself; "" for the weights that the server was started with, or while others load. */
interface ServedWeights {
  run: string;
}

/** What routes work with. */
export interface ServerContext extends ServerParts {
  readonly maxChoices: number;
  readonly acceptsAnyModel: boolean;
  readonly stallTimeoutMs: number;
  readonly samplingRules: SamplingRules;
  readonly encoder: PromptEncoder;
  readonly replies: ReplyIndex;
  /** Answers of /v1/responses that later calls refer to. */
  readonly responses: ResponseStore;
  /** Stands for a reply while a chat is rendered. */
  readonly mark: string;
  readonly sessions: Sessions;
  readonly metrics: ServerMetrics;
  /** Whose weights the engine has. */
  readonly served: ServedWeights;
  readonly calls: Calls;
}
