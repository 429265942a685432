/**
 * Generation: tokens in; tokens, log-probabilities, versions and the reason it ended out.
 *
 * Everything that samples is behind this one function type: the local engine, engines in other threads, remote servers,
 * scripted fakes. Requests run at the same time and are batched by whoever implements it.
 */
import type { Finish } from "../flow/finish.ts";
import type { SampledTokens } from "../flow/sampled-tokens.ts";
import type { Constraint } from "./constraint/constraint.ts";

export type { Finish } from "../flow/finish.ts";
export type { SampledTokens, TokenLogprob } from "../flow/sampled-tokens.ts";
export type { Constraint } from "./constraint/constraint.ts";

/** Continues a prompt. Rejects only for a request that can never work; what happens on the way is in `finish`. */
export type Generate = (request: GenerateRequest) => Promise<Generation>;

export interface GenerateRequest {
  /** Never decoded and encoded again: tokens in, tokens out. */
  readonly promptIds: ArrayLike<number>;
  readonly sampling: Sampling;
  /** The turns of one episode. A prompt that extends the tokens of the session's last call pays for the new ones only. */
  readonly sessionId?: string;
  /** How many of the likeliest alternatives to report per token. Default 0. */
  readonly numTopLogprobs?: number;
  /** Called as tokens come, in order, on the caller's thread. */
  readonly onTokens?: (tokens: SampledTokens) => void;
  /** Ends the request early: it resolves with the tokens so far and finish "aborted". */
  readonly signal?: AbortSignal;
}

/** How tokens are drawn. Defaults: temperature 1, no filters, no penalty. */
export interface Sampling {
  readonly maxTokens: number;
  /** 0 takes the likeliest token. */
  readonly temperature?: number;
  /** Only the k likeliest tokens. 0 or absent: all. */
  readonly topK?: number;
  /** The smallest set of likeliest tokens with at least this probability. */
  readonly topP?: number;
  /** Only tokens at least this likely relative to the likeliest. */
  readonly minP?: number;
  /** Scores of tokens already in the sequence are divided (positive) or multiplied (negative) by this. 1 or absent: none. */
  readonly repetitionPenalty?: number;
  /** Taken from the score of a token for every time it is in the reply so far. 0 or absent: none. */
  readonly frequencyPenalty?: number;
  /** Taken from the score of a token that is in the reply so far. 0 or absent: none. */
  readonly presencePenalty?: number;
  /** Added to the scores of tokens by id. */
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Tokens that end the reply; the token itself is part of it. */
  readonly stopIds?: readonly number[];
  /** Texts that end the reply once they appear in it. */
  readonly stopStrings?: readonly string[];
  /** What the reply must look like. Tokens that would break it are never drawn; the local engine alone can do that, and needs stopIds for it. */
  readonly constraint?: Constraint;
  /** The same seed, prompt, options and weights give the same tokens, whatever else is being generated. */
  readonly seed?: number;
}

export interface Generation extends SampledTokens {
  readonly finish: Finish;
  readonly usage: Usage;
}

/** What a request cost. */
export interface Usage {
  readonly promptTokens: number;
  /** Prompt tokens whose keys and values were there already: of an earlier turn, or of another sample of the same prompt. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
}
