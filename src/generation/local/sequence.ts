/** One request on its way through the engine: its tokens, how far they are computed, and where their cache is. */
import { copyToken, copyTokens, type TokenArrays, tokenArrays } from "../../flow/sampled-tokens.ts";
import type { Guide } from "../constraint/guides.ts";
import type { GenerateRequest, SampledTokens, Sampling, TokenLogprob, Usage } from "../generate.ts";
import type { DrawnRows } from "./drawn-rows.ts";
import { PrefixKeys, promptKey } from "./prefix-keys.ts";

/** Room for tokens of the reply at first, from 128 to 191: sequences that begin together would otherwise all run out of it in the same step. */
const firstRoom = (id: number) => 128 + (id % 64);

export class Sequence {
  readonly id: number;
  readonly sampling: Sampling;
  readonly sessionId: string | undefined;
  readonly numTopLogprobs: number;
  readonly promptLength: number;
  /** Equal for equal prompts. */
  readonly promptKey: string;
  /** The seed that draws use: the request's, or one the engine chose. */
  readonly seed: number;
  /** Prompt and reply. Grows by doubling. */
  #buffer: Int32Array;
  length: number;
  /** Tokens whose keys and values are in the cache. */
  numComputed = 0;
  /** Prompt tokens that did not have to be computed. */
  numCached = 0;
  /** Cache blocks, in the order of the tokens. */
  blocks: number[] = [];
  /** Names of the full blocks that others may use; null once keys of different weights are mixed in. */
  prefixKeys: PrefixKeys | null = new PrefixKeys();
  /** The slot of its state, where the model has linear attention. */
  stateSlot: number | null = null;
  /** The slot of the state that it starts from, where that is another's, until its first tokens are computed. */
  stateSource: number | null = null;
  /** The slot in which the step under way leaves the state after this many tokens, for others that begin alike. */
  stateMark: { readonly slot: number; readonly length: number } | null = null;
  /** The oldest version of the weights that computed keys and values in the cache. */
  cacheVersion = 0;
  /** Which tokens may come next, where the request has a constraint. */
  readonly guide: Guide | null;
  /** Sequences with the same prompt that wait for this one's cache. */
  followers: Sequence[] = [];
  /** The reply, and room for more of it. Grows by doubling. */
  #drawn: TokenArrays;
  readonly #topLogprobs: (readonly TokenLogprob[])[] = [];

  constructor(id: number, request: GenerateRequest, seed: number, guide: Guide | null = null) {
    this.id = id;
    this.guide = guide;
    this.sampling = request.sampling;
    this.sessionId = request.sessionId;
    this.numTopLogprobs = request.numTopLogprobs ?? 0;
    this.seed = seed;
    this.promptLength = request.promptIds.length;
    this.length = this.promptLength;
    const room = Math.min(request.sampling.maxTokens, firstRoom(id));
    this.#drawn = tokenArrays(room);
    this.#buffer = new Int32Array(2 * this.promptLength + room);
    this.#buffer.set(request.promptIds);
    this.promptKey = promptKey(this.tokens);
  }

  /** All tokens, prompt and reply. A view: it changes when tokens are appended. */
  get tokens(): Int32Array {
    return this.#buffer.subarray(0, this.length);
  }

  tokenAt(position: number): number {
    return this.#buffer[position]!;
  }

  /** Tokens of the reply so far. */
  get numDrawn(): number {
    return this.length - this.promptLength;
  }

  /** Tokens that the model has to see before the next one can be drawn. */
  get numPending(): number {
    return this.length - this.numComputed;
  }

  /** Whether the prompt is not yet through the model, and nothing was drawn before. */
  get isStarting(): boolean {
    return this.numDrawn === 0 && this.numPending > 0;
  }

  /** Adds the token that was drawn in this row. */
  append(rows: DrawnRows, row: number, version: number): void {
    const { numDrawn } = this;
    const room = this.#drawn.tokenIds.length;
    if (numDrawn === room) this.#drawn = copyTokens(this.#drawn, 0, room, 2 * room);
    if (this.length === this.#buffer.length) {
      const longer = new Int32Array(2 * this.length);
      longer.set(this.#buffer);
      this.#buffer = longer;
    }
    const tokenId = rows.tokenIds[row]!;
    this.#buffer[this.length++] = tokenId;
    this.#drawn.tokenIds[numDrawn] = tokenId;
    this.#drawn.samplerLogprobs[numDrawn] = rows.samplerLogprobs[row]!;
    this.#drawn.drawLogprobs[numDrawn] = rows.drawLogprobs[row]!;
    this.#drawn.modelLogprobs[numDrawn] = rows.modelLogprobs[row]!;
    this.#drawn.versions[numDrawn] = version;
    this.#drawn.cacheVersions[numDrawn] = this.cacheVersion;
    if (this.numTopLogprobs > 0) this.#topLogprobs.push(rows.topLogprobs?.[row] ?? []);
  }

  /** A copy of the reply so far. */
  reply(): SampledTokens {
    return this.#withAlternatives(copyTokens(this.#drawn, 0, this.numDrawn), 0);
  }

  /** A copy of the token that was drawn last. */
  lastDrawn(): SampledTokens {
    const last = this.numDrawn - 1;
    return this.#withAlternatives(copyToken(this.#drawn, last), last);
  }

  #withAlternatives(tokens: SampledTokens, start: number): SampledTokens {
    if (this.numTopLogprobs === 0) return tokens;
    const copied = (alternatives: readonly TokenLogprob[]) => alternatives.map((one) => ({ ...one }));
    return { ...tokens, topLogprobs: this.#topLogprobs.slice(start).map(copied) };
  }

  /** Starts over: the cache is gone, the tokens stay. */
  forgetCache(): void {
    this.numComputed = 0;
    this.blocks = [];
    this.prefixKeys = new PrefixKeys();
    this.stateSlot = null;
    this.stateSource = null;
    this.stateMark = null;
  }

  usage(): Usage {
    return { promptTokens: this.promptLength, cachedTokens: this.numCached, generatedTokens: this.numDrawn };
  }
}
