/**
 * Collects the tokens of a request, over several attempts if need be.
 *
 * Tokens that the caller has been shown cannot be taken back. So an attempt that starts over must bring the same ones
 * again, which only a request with a seed can promise; they are compared and not shown twice.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Finish, GenerateRequest, Generation, SampledTokens, TokenLogprob } from "../generate.ts";

/** Tokens as a server reports them. All lists have one entry per token. */
export interface ReportedTokens {
  readonly tokenIds: readonly number[];
  readonly samplerLogprobs: readonly number[];
  readonly drawLogprobs: readonly number[];
  readonly modelLogprobs: readonly number[];
  readonly versions: readonly number[];
  readonly cacheVersions: readonly number[];
  readonly topLogprobs?: readonly (readonly TokenLogprob[])[] | undefined;
}

interface Token {
  readonly tokenId: number;
  readonly samplerLogprob: number;
  readonly drawLogprob: number;
  readonly modelLogprob: number;
  readonly version: number;
  readonly cacheVersion: number;
  readonly topLogprobs: readonly TokenLogprob[];
}

export class TokenSink {
  readonly #request: GenerateRequest;
  #tokens: Token[] = [];
  /** How many of the tokens have been seen in this attempt. */
  #position = 0;

  constructor(request: GenerateRequest) {
    this.#request = request;
  }

  get length(): number {
    return this.#tokens.length;
  }

  /** Whether the request may start over. */
  get canRestart(): boolean {
    const hasShown = this.#request.onTokens !== undefined && this.#tokens.length > 0;
    return !hasShown || this.#request.sampling.seed !== undefined;
  }

  restart(): void {
    this.#position = 0;
    if (this.#request.onTokens === undefined) this.#tokens = [];
  }

  /** The tokens of this attempt so far. */
  get position(): number {
    return this.#position;
  }

  push(reported: ReportedTokens): void {
    const start = this.#tokens.length;
    for (const [index, tokenId] of reported.tokenIds.entries()) {
      const shown = this.#tokens[this.#position];
      if (shown === undefined) this.#tokens.push(tokenAt(reported, index));
      else if (shown.tokenId !== tokenId) throw notRepeated(this.#position, shown.tokenId, tokenId);
      this.#position++;
    }
    if (this.#tokens.length > start) this.#show(start);
  }

  result(finish: Finish, cachedTokens: number): Generation {
    const promptTokens = this.#request.promptIds.length;
    return { ...this.#slice(0), finish, usage: { promptTokens, cachedTokens, generatedTokens: this.#tokens.length } };
  }

  #show(start: number): void {
    try {
      this.#request.onTokens?.(this.#slice(start));
    } catch (cause) {
      throw new RerollError(CALLBACK_FAILED, `onTokens threw: ${String(cause)}`, {}, { cause });
    }
  }

  #slice(start: number): SampledTokens {
    const tokens = this.#tokens.slice(start);
    const sampled = {
      tokenIds: Int32Array.from(tokens, (token) => token.tokenId),
      samplerLogprobs: Float32Array.from(tokens, (token) => token.samplerLogprob),
      drawLogprobs: Float32Array.from(tokens, (token) => token.drawLogprob),
      modelLogprobs: Float32Array.from(tokens, (token) => token.modelLogprob),
      versions: Int32Array.from(tokens, (token) => token.version),
      cacheVersions: Int32Array.from(tokens, (token) => token.cacheVersion),
    };
    if ((this.#request.numTopLogprobs ?? 0) === 0) return sampled;
    return { ...sampled, topLogprobs: tokens.map((token) => token.topLogprobs) };
  }
}

function tokenAt(reported: ReportedTokens, index: number): Token {
  return {
    tokenId: reported.tokenIds[index]!,
    samplerLogprob: reported.samplerLogprobs[index]!,
    drawLogprob: reported.drawLogprobs[index]!,
    modelLogprob: reported.modelLogprobs[index]!,
    version: reported.versions[index]!,
    cacheVersion: reported.cacheVersions[index]!,
    topLogprobs: reported.topLogprobs?.[index] ?? [],
  };
}

const NOT_REPEATABLE = "REMOTE_NOT_REPEATABLE";
const CALLBACK_FAILED = "CALLBACK_FAILED";

/** Whether tokens could not be taken: the caller's callback threw, or a second attempt brought other tokens. */
export function isSinkFailure(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && (cause.code === NOT_REPEATABLE || cause.code === CALLBACK_FAILED);
}

function notRepeated(position: number, before: number, now: number): RerollError {
  return new RerollError(
    NOT_REPEATABLE,
    `The connection broke, and with the same seed the server drew another token at position ${position}: ${now} instead of ${before}. Start over without the tokens so far.`,
    { position, before, now },
  );
}
