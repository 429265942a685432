/** One request on its way through the engine: its tokens, how far they are computed, and where their cache is. */
import { tokenArrays } from "../../flow/sampled-tokens.ts";
import type { Guide } from "../constraint/guides.ts";
import type { GenerateRequest, SampledTokens, Sampling, TokenLogprob, Usage } from "../generate.ts";
import { PrefixKeys, promptKey } from "./prefix-keys.ts";

/** What was drawn in one step for one sequence. */
interface Draw {
  readonly tokenId: number;
  readonly samplerLogprob: number;
  readonly drawLogprob: number;
  readonly modelLogprob: number;
  readonly topLogprobs: readonly TokenLogprob[];
}

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
  // One value per drawn token, in plain memory that grows with `buffer`: an object per token would be work for the collector.
  #samplerLogprobs = new Float32Array(16);
  #drawLogprobs = new Float32Array(16);
  #modelLogprobs = new Float32Array(16);
  #versions = new Int32Array(16);
  #cacheVersions = new Int32Array(16);
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
    this.#buffer = new Int32Array(Math.max(16, 2 * this.promptLength));
    this.#buffer.set(Int32Array.from(request.promptIds));
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

  append(draw: Draw, version: number): void {
    const { numDrawn } = this;
    if (this.length === this.#buffer.length)
      this.#buffer = doubled(this.#buffer, new Int32Array(2 * this.#buffer.length));
    if (numDrawn === this.#versions.length) {
      this.#samplerLogprobs = doubled(this.#samplerLogprobs, new Float32Array(2 * numDrawn));
      this.#drawLogprobs = doubled(this.#drawLogprobs, new Float32Array(2 * numDrawn));
      this.#modelLogprobs = doubled(this.#modelLogprobs, new Float32Array(2 * numDrawn));
      this.#versions = doubled(this.#versions, new Int32Array(2 * numDrawn));
      this.#cacheVersions = doubled(this.#cacheVersions, new Int32Array(2 * numDrawn));
    }
    this.#buffer[this.length++] = draw.tokenId;
    this.#samplerLogprobs[numDrawn] = draw.samplerLogprob;
    this.#drawLogprobs[numDrawn] = draw.drawLogprob;
    this.#modelLogprobs[numDrawn] = draw.modelLogprob;
    this.#versions[numDrawn] = version;
    this.#cacheVersions[numDrawn] = this.cacheVersion;
    if (this.numTopLogprobs > 0) this.#topLogprobs.push(draw.topLogprobs);
  }

  /** A copy of what was drawn, from this token of the reply on. */
  sampledFrom(start: number): SampledTokens {
    const end = this.numDrawn;
    const tokens = tokenArrays(end - start);
    tokens.tokenIds.set(this.#buffer.subarray(this.promptLength + start, this.length));
    tokens.samplerLogprobs.set(this.#samplerLogprobs.subarray(start, end));
    tokens.drawLogprobs.set(this.#drawLogprobs.subarray(start, end));
    tokens.modelLogprobs.set(this.#modelLogprobs.subarray(start, end));
    tokens.versions.set(this.#versions.subarray(start, end));
    tokens.cacheVersions.set(this.#cacheVersions.subarray(start, end));
    return this.numTopLogprobs > 0 ? { ...tokens, topLogprobs: this.#topLogprobs.slice(start) } : tokens;
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

function doubled<Values extends Int32Array | Float32Array>(from: Values, to: Values): Values {
  to.set(from);
  return to;
}
