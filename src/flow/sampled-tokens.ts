import { joinFloats, joinIds } from "./join-arrays.ts";

/**
 * Tokens that a model wrote, with what is known of each. All arrays have one entry per token.
 *
 * The three log-probabilities are of the same token under three distributions of the same weights. With logits z, temperature T and a
 * truncation (topK, topP, minP, logitBias, penalties, a constraint): softmax(z) is the model's, softmax(z / T) the sampler's, and the truncated
 * softmax(z / T) the one that the token was drawn from. Where nothing truncates, the last two are equal.
 */
export interface SampledTokens {
  readonly tokenIds: Int32Array;
  /**
   * Log-probability under the sampler's weights at the sampling temperature, over the whole vocabulary. A trainer computes the same
   * number under its own weights, so ratios are taken against this one. 0 for a greedy draw.
   */
  readonly samplerLogprobs: Float32Array;
  /** Log-probability under the distribution the token was drawn from: after filters, penalties and bias. NaN where a server does not report it. */
  readonly drawLogprobs: Float32Array;
  /** Log-probability under the model itself, at temperature 1. NaN where a server does not report it. */
  readonly modelLogprobs: Float32Array;
  /** The version of the weights that drew the token. */
  readonly versions: Int32Array;
  /** The oldest version whose keys and values the token was drawn on. Lower than its own version where the weights changed during the reply. */
  readonly cacheVersions: Int32Array;
  /** Present when asked for: the likeliest alternatives of each token under the model, best first. */
  readonly topLogprobs?: readonly (readonly TokenLogprob[])[];
}

export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
}

/** Tokens that can still be written. */
export type TokenArrays = ReturnType<typeof tokenArrays>;

/**
 * Room for so many tokens: arrays over one piece of memory, since a reply of six pieces takes six times as long to hand to another thread and to collect.
 */
export function tokenArrays(numTokens: number) {
  const memory = new ArrayBuffer(6 * 4 * numTokens);
  const ids = (index: number) => new Int32Array(memory, 4 * index * numTokens, numTokens);
  const logprobs = (index: number) => new Float32Array(memory, 4 * index * numTokens, numTokens);
  return {
    tokenIds: ids(0),
    samplerLogprobs: logprobs(1),
    drawLogprobs: logprobs(2),
    modelLogprobs: logprobs(3),
    versions: ids(4),
    cacheVersions: ids(5),
  } satisfies SampledTokens;
}

/** Some of these tokens, copied, with room for so many in all. */
export function copyTokens(from: SampledTokens, start: number, end: number, room = end - start): TokenArrays {
  const copy = tokenArrays(room);
  copy.tokenIds.set(from.tokenIds.subarray(start, end));
  copy.samplerLogprobs.set(from.samplerLogprobs.subarray(start, end));
  copy.drawLogprobs.set(from.drawLogprobs.subarray(start, end));
  copy.modelLogprobs.set(from.modelLogprobs.subarray(start, end));
  copy.versions.set(from.versions.subarray(start, end));
  copy.cacheVersions.set(from.cacheVersions.subarray(start, end));
  return copy;
}

/**
 * One of these tokens, copied, in arrays of their own: V8 keeps arrays this small among its objects, where memory that several share is asked of
 * the system, and given back while the collector holds the thread. For every token of 64 replies that made pauses of 2 ms and more.
 */
export function copyToken(from: SampledTokens, index: number): SampledTokens {
  const token = {
    tokenIds: new Int32Array(1),
    samplerLogprobs: new Float32Array(1),
    drawLogprobs: new Float32Array(1),
    modelLogprobs: new Float32Array(1),
    versions: new Int32Array(1),
    cacheVersions: new Int32Array(1),
  };
  putToken(token, 0, from, index);
  return token;
}

/** The same few tokens in one piece of memory: to post that to another thread, and to take it there, takes half as long. */
export function inOnePiece(tokens: SampledTokens): SampledTokens {
  const { length } = tokens.tokenIds;
  const piece = tokenArrays(length);
  for (let i = 0; i < length; i++) putToken(piece, i, tokens, i);
  return tokens.topLogprobs === undefined ? piece : { ...piece, topLogprobs: tokens.topLogprobs };
}

function putToken(to: SampledTokens, at: number, from: SampledTokens, index: number): void {
  to.tokenIds[at] = from.tokenIds[index]!;
  to.samplerLogprobs[at] = from.samplerLogprobs[index]!;
  to.drawLogprobs[at] = from.drawLogprobs[index]!;
  to.modelLogprobs[at] = from.modelLogprobs[index]!;
  to.versions[at] = from.versions[index]!;
  to.cacheVersions[at] = from.cacheVersions[index]!;
}

/** These tokens without whatever else the object holds, such as how a reply ended and the alternatives of its tokens. */
export function tokensOnly(from: SampledTokens): SampledTokens {
  const { tokenIds, samplerLogprobs, drawLogprobs, modelLogprobs, versions, cacheVersions } = from;
  return { tokenIds, samplerLogprobs, drawLogprobs, modelLogprobs, versions, cacheVersions };
}

/** Parts of a reply in one piece, with the alternatives of their tokens where the parts have them. */
export function joinTokens(parts: readonly SampledTokens[]): SampledTokens {
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const joined = {
    tokenIds: joinIds(parts.map((part) => part.tokenIds)),
    samplerLogprobs: joinFloats(parts.map((part) => part.samplerLogprobs)),
    drawLogprobs: joinFloats(parts.map((part) => part.drawLogprobs)),
    modelLogprobs: joinFloats(parts.map((part) => part.modelLogprobs)),
    versions: joinIds(parts.map((part) => part.versions)),
    cacheVersions: joinIds(parts.map((part) => part.cacheVersions)),
  };
  if (parts.every(({ topLogprobs }) => topLogprobs === undefined)) return joined;
  return { ...joined, topLogprobs: parts.flatMap(({ topLogprobs = [] }) => topLogprobs) };
}
