/**
 * An engine without a model, for tests: deterministic, fast, and honest about everything an `Engine` promises.
 *
 * Replies come from a script, or are drawn from a made-up model in which the next token depends on the last one only.
 * That model has real log-probabilities, so all sampling options mean what they mean elsewhere. One token per running
 * request and step; between steps the event loop gets its turn. Waits for: a place among the running; the queue is bounded.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { type DecodeSource, IncrementalDecoder } from "../chat/tokenizer/incremental-decoder.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { checkRequest } from "../generation/check-request.ts";
import type { Engine, EngineStatus } from "../generation/engine.ts";
import type {
  Finish,
  GenerateRequest,
  Generation,
  SampledTokens,
  Sampling,
  TokenLogprob,
} from "../generation/generate.ts";

export interface ScriptedOptions {
  /** Size of the vocabulary. Default 260, as in fixtures/tokenizer. */
  readonly vocabularySize?: number;
  /** Default 4096. */
  readonly contextLength?: number;
  /** Default 64. */
  readonly maxRunning?: number;
  /** Maximum number of requests that wait; one more is refused with QUEUE_FULL. Default 1024. */
  readonly maxQueuedRequests?: number;
  /** Chooses the made-up model, and the tokens of requests without a seed. Default 0. */
  readonly seed?: number;
  /** Default 1. */
  readonly version?: number;
  /** Turns tokens into text. Only needed for stop strings. */
  readonly source?: DecodeSource;
  /** What to answer to a request, the first one having index 0. Undefined: drawn from the made-up model. */
  readonly reply?: (request: GenerateRequest, index: number) => ScriptedReply | undefined;
  /** Awaited before every step. Default: one turn of the event loop. A test can hold the engine here. */
  readonly beforeStep?: () => Promise<unknown>;
}

export interface ScriptedReply {
  /**
   * Tokens of the reply, each with log-prob -0.25. The request's first stop id follows; without stop ids, tokens of the
   * made-up model do.
   */
  readonly tokenIds: ArrayLike<number>;
  /** Ends the reply with this failure after its tokens. */
  readonly error?: RerollError;
}

export interface ScriptedEngine extends Engine {
  /** Tokens of later steps carry this version. */
  publish(version: number): void;
}

export function createScriptedEngine(options: ScriptedOptions = {}): ScriptedEngine {
  return new ScriptedEngineState(options);
}

/** Number of sessions whose last tokens are remembered; the least recently used is forgotten first. */
const MAX_SESSIONS = 256;

class ScriptedEngineState implements ScriptedEngine {
  readonly #options: ScriptedOptions;
  readonly #contextLength: number;
  readonly #maxRunning: number;
  readonly #maxQueued: number;
  readonly #model: MadeUpModel;
  readonly #running = new Set<Run>();
  readonly #queue = new Set<Run>();
  /** The tokens of each session's last call. */
  readonly #sessions = new Map<string, readonly number[]>();
  readonly #counters = {
    ...{ requests: 0, finished: 0, aborted: 0, failed: 0 },
    ...{ prefilledTokens: 0, cachedTokens: 0, generatedTokens: 0, steps: 0 },
  };
  #version: number;
  #isPaused = false;
  #isClosed = false;
  #isLooping = false;

  constructor(options: ScriptedOptions) {
    const { contextLength = 4096, maxRunning = 64, maxQueuedRequests = 1024, version = 1 } = options;
    this.#options = options;
    this.#contextLength = contextLength;
    this.#maxRunning = maxRunning;
    this.#maxQueued = maxQueuedRequests;
    this.#version = version;
    this.#model = new MadeUpModel(options.vocabularySize ?? 260, options.seed ?? 0);
  }

  readonly generate = async (request: GenerateRequest): Promise<Generation> => {
    this.#refuse(request);
    const index = this.#counters.requests++;
    const script = this.#options.reply?.(request, index);
    if (script === undefined) refuseUnknown(request.sampling);
    const run = new Run(request, {
      seed: request.sampling.seed ?? hash32(this.#options.seed ?? 0, index),
      script,
      cachedTokens: this.#cachedTokens(request),
      source: this.#options.source,
    });
    if (request.signal?.aborted) return this.#end(run, { kind: "aborted" });
    return new Promise((resolve) => {
      const onAbort = () => run.settle({ kind: "aborted" });
      request.signal?.addEventListener("abort", onAbort);
      run.settle = (finish) => {
        run.settle = () => {};
        request.signal?.removeEventListener("abort", onAbort);
        this.#queue.delete(run);
        this.#running.delete(run);
        resolve(this.#end(run, finish));
      };
      this.#queue.add(run);
      this.#wake();
    });
  };

  async pause(): Promise<void> {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#wake();
  }

  async abortAll(): Promise<void> {
    for (const run of [...this.#running, ...this.#queue]) run.settle({ kind: "aborted" });
  }

  publish(version: number): void {
    this.#version = version;
  }

  status(): EngineStatus {
    return {
      version: this.#version,
      isPaused: this.#isPaused,
      queuedRequests: this.#queue.size,
      runningRequests: this.#running.size,
      maxQueuedRequests: this.#maxQueued,
      contextLength: this.#contextLength,
      cacheUsage: this.#running.size / this.#maxRunning,
      counters: { ...this.#counters },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.abortAll();
  }

  #refuse(request: GenerateRequest): void {
    if (this.#isClosed) throw new RerollError("ENGINE_CLOSED", "The engine is closed. Send requests to one that runs.");
    checkRequest(request, { contextLength: this.#contextLength, vocabSize: this.#model.vocabularySize });
    if ((request.sampling.stopStrings?.length ?? 0) > 0 && this.#options.source === undefined) {
      throw new RerollError(
        "INVALID_REQUEST",
        "stopStrings need text, and this engine has none. Set the option source.",
      );
    }
    if (this.#queue.size >= this.#maxQueued) {
      throw new RerollError("QUEUE_FULL", `The engine has ${this.#maxQueued} requests waiting. Try again later.`);
    }
  }

  #wake(): void {
    if (this.#isLooping) return;
    this.#isLooping = true;
    void this.#loop();
  }

  async #loop(): Promise<void> {
    const { beforeStep = nextTurn } = this.#options;
    while (!this.#isPaused && this.#queue.size + this.#running.size > 0) {
      await beforeStep();
      if (!this.#isPaused) this.#step();
    }
    this.#isLooping = false;
  }

  #step(): void {
    this.#counters.steps++;
    for (const run of this.#queue) {
      if (this.#running.size >= this.#maxRunning) break;
      this.#queue.delete(run);
      this.#running.add(run);
      this.#counters.cachedTokens += run.cachedTokens;
      this.#counters.prefilledTokens += run.request.promptIds.length - run.cachedTokens;
    }
    for (const run of [...this.#running]) this.#advance(run);
  }

  #advance(run: Run): void {
    // A callback of an earlier request in this step may have ended this one.
    if (!this.#running.has(run)) return;
    const { script } = run;
    if (script?.error !== undefined && run.length >= script.tokenIds.length) {
      run.settle({ kind: "failed", error: script.error });
      return;
    }
    run.add(run.scriptedDraw() ?? this.#model.draw(run), this.#version);
    this.#counters.generatedTokens++;
    const finish = callBack(run) ?? run.finishNow(this.#contextLength);
    if (finish !== undefined) run.settle(finish);
  }

  #end(run: Run, finish: Finish): Generation {
    if (finish.kind === "aborted") this.#counters.aborted++;
    else if (finish.kind === "failed") this.#counters.failed++;
    else this.#counters.finished++;
    const { sessionId, promptIds } = run.request;
    if (sessionId !== undefined) this.#keepSession(sessionId, run.ids.slice(0, -1));
    const usage = {
      promptTokens: promptIds.length,
      cachedTokens: run.cachedTokens,
      generatedTokens: run.length,
    };
    return { ...run.tokensFrom(0), finish, usage };
  }

  #keepSession(sessionId: string, ids: readonly number[]): void {
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, ids);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
  }

  #cachedTokens({ sessionId, promptIds }: GenerateRequest): number {
    const cached = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    const isPrefix = cached?.every((tokenId, index) => tokenId === promptIds[index]) ?? false;
    return isPrefix && cached !== undefined ? Math.min(cached.length, promptIds.length - 1) : 0;
  }
}

/** A callback that throws fails its own request and no other. */
function callBack(run: Run): Finish | undefined {
  try {
    run.request.onTokens?.(run.tokensFrom(run.length - 1));
    return undefined;
  } catch (cause) {
    const error = new RerollError("CALLBACK_FAILED", `onTokens threw: ${String(cause)}`, {}, { cause });
    return { kind: "failed", error };
  }
}

interface Draw {
  readonly tokenId: number;
  readonly samplerLogprob: number;
  readonly drawLogprob: number;
  readonly modelLogprob: number;
  readonly topLogprobs: readonly TokenLogprob[];
}

interface RunParts {
  readonly seed: number;
  readonly script: ScriptedReply | undefined;
  readonly cachedTokens: number;
  readonly source: DecodeSource | undefined;
}

/** One request on its way: its tokens, and how it will end. */
class Run {
  readonly request: GenerateRequest;
  readonly seed: number;
  readonly script: ScriptedReply | undefined;
  readonly cachedTokens: number;
  /** Tokens of the prompt and the reply. */
  readonly ids: number[];
  settle: (finish: Finish) => void = () => {};
  readonly #draws: Draw[] = [];
  readonly #versions: number[] = [];
  readonly #stopText: StopText | undefined;

  constructor(request: GenerateRequest, { seed, script, cachedTokens, source }: RunParts) {
    this.request = request;
    this.seed = seed;
    this.script = script;
    this.cachedTokens = cachedTokens;
    this.ids = Array.from(request.promptIds);
    const { stopStrings = [] } = request.sampling;
    if (source !== undefined && stopStrings.length > 0) this.#stopText = new StopText(source, stopStrings);
  }

  get length(): number {
    return this.#draws.length;
  }

  add(draw: Draw, version: number): void {
    this.ids.push(draw.tokenId);
    this.#draws.push(draw);
    this.#versions.push(version);
    this.#stopText?.push(draw.tokenId);
  }

  scriptedDraw(): Draw | undefined {
    const { script, request } = this;
    if (script === undefined) return undefined;
    const { tokenIds } = script;
    const tokenId = this.length < tokenIds.length ? tokenIds[this.length] : request.sampling.stopIds?.[0];
    if (tokenId === undefined) return undefined;
    const others = Array.from({ length: request.numTopLogprobs ?? 0 }, (_, rank) => ({
      tokenId: rank === 0 ? tokenId : rank - 1 + (rank > tokenId ? 1 : 0),
      logprob: -0.25 - 2 * rank,
    }));
    return { tokenId, samplerLogprob: -0.25, drawLogprob: -0.25, modelLogprob: -0.25, topLogprobs: others };
  }

  finishNow(contextLength: number): Finish | undefined {
    const { maxTokens, stopIds = [] } = this.request.sampling;
    const last = this.ids.at(-1);
    if (last !== undefined && stopIds.includes(last)) return { kind: "stop", by: "token", tokenId: last };
    const text = this.#stopText?.found;
    if (text !== undefined) return { kind: "stop", by: "string", text };
    if (this.length >= maxTokens) return { kind: "length", limit: "max-tokens" };
    if (this.ids.length >= contextLength) return { kind: "length", limit: "context" };
    return undefined;
  }

  tokensFrom(start: number): SampledTokens {
    const draws = this.#draws.slice(start);
    const tokens = {
      tokenIds: Int32Array.from(draws, (draw) => draw.tokenId),
      samplerLogprobs: Float32Array.from(draws, (draw) => draw.samplerLogprob),
      drawLogprobs: Float32Array.from(draws, (draw) => draw.drawLogprob),
      modelLogprobs: Float32Array.from(draws, (draw) => draw.modelLogprob),
      versions: Int32Array.from(this.#versions.slice(start)),
      // Nothing is cached here: every token is as if the whole sequence had been read anew.
      cacheVersions: Int32Array.from(this.#versions.slice(start)),
    };
    if ((this.request.numTopLogprobs ?? 0) === 0) return tokens;
    return { ...tokens, topLogprobs: draws.map((draw) => draw.topLogprobs) };
  }
}

/** Looks for stop strings in text that comes token by token. */
class StopText {
  readonly #decoder: IncrementalDecoder;
  readonly #stopStrings: readonly string[];
  readonly #window: number;
  #tail = "";
  found: string | undefined;

  constructor(source: DecodeSource, stopStrings: readonly string[]) {
    this.#decoder = new IncrementalDecoder(source);
    this.#stopStrings = stopStrings;
    this.#window = Math.max(...stopStrings.map((text) => text.length)) - 1;
  }

  push(tokenId: number): void {
    const text = this.#tail + this.#decoder.push(tokenId);
    this.found ??= this.#stopStrings.find((stop) => text.includes(stop));
    this.#tail = this.#window === 0 ? "" : text.slice(-this.#window);
  }
}

/**
 * A model whose scores for the next token come from a fixed pseudo-random table by last token, so that every token is
 * possible everywhere.
 */
class MadeUpModel {
  readonly vocabularySize: number;
  readonly #seed: number;
  readonly #rows = new Map<number, Float64Array>();

  constructor(vocabularySize: number, seed: number) {
    this.vocabularySize = vocabularySize;
    this.#seed = seed;
  }

  draw(run: Run): Draw {
    const last = run.ids.at(-1) ?? 0;
    const modelLogprobs = this.#logprobsAfter(last);
    const drawn = sample(modelLogprobs, run.request.sampling, run.ids, uniform(run.seed, run.length));
    return {
      ...drawn,
      modelLogprob: modelLogprobs[drawn.tokenId] ?? 0,
      topLogprobs: likeliest(modelLogprobs, run.request.numTopLogprobs ?? 0),
    };
  }

  #logprobsAfter(last: number): Float64Array {
    const known = this.#rows.get(last);
    if (known !== undefined) return known;
    const row = Float64Array.from(
      { length: this.vocabularySize },
      (_, tokenId) => 6 * uniform(hash32(this.#seed, last), tokenId),
    );
    const logprobs = logSoftmax(row);
    this.#rows.set(last, logprobs);
    return logprobs;
  }
}

/** What the made-up model does not do. A script may: it is whatever its author says. */
function refuseUnknown({ constraint, frequencyPenalty = 0, presencePenalty = 0 }: Sampling): void {
  if (constraint === undefined && frequencyPenalty === 0 && presencePenalty === 0) return;
  throw new RerollError(
    "INVALID_REQUEST",
    "The made-up model knows no constraint and no penalties by count: script it.",
  );
}

/** Draws a token by inverting the cumulative distribution. */
function sample(
  modelLogprobs: Float64Array,
  sampling: Sampling,
  seen: readonly number[],
  chance: number,
): Omit<Draw, "modelLogprob" | "topLogprobs"> {
  const { temperature = 1, topK = 0, topP = 1, minP = 0 } = sampling;
  const scores = adjusted(modelLogprobs, sampling, seen);
  if (temperature === 0) {
    return { tokenId: likeliest(scores, 1)[0]?.tokenId ?? 0, samplerLogprob: 0, drawLogprob: 0 };
  }
  const tempered = (from: Float64Array) => logSoftmax(from.map((score) => score / temperature));
  const samplerLogprobs = temperature === 1 ? modelLogprobs : tempered(modelLogprobs);
  const isFiltered = topK > 0 || topP < 1 || minP > 0;
  if (!isFiltered) {
    const drawLogprobs = scores === modelLogprobs ? samplerLogprobs : tempered(scores);
    const tokenId = indexAt(drawLogprobs, chance);
    return { tokenId, samplerLogprob: samplerLogprobs[tokenId] ?? 0, drawLogprob: drawLogprobs[tokenId] ?? 0 };
  }
  const kept = filtered(likeliest(tempered(scores), topK > 0 ? topK : scores.length), topP, minP);
  const drawLogprobs = logSoftmax(Float64Array.from(kept, ({ logprob }) => logprob));
  const rank = indexAt(drawLogprobs, chance);
  const tokenId = kept[rank]?.tokenId ?? 0;
  return { tokenId, samplerLogprob: samplerLogprobs[tokenId] ?? 0, drawLogprob: drawLogprobs[rank] ?? 0 };
}

/** The first entry up to which the probabilities add up to more than `chance`. */
function indexAt(logprobs: Float64Array, chance: number): number {
  let left = chance;
  for (const [index, logprob] of logprobs.entries()) {
    left -= Math.exp(logprob);
    if (left < 0) return index;
  }
  return logprobs.length - 1;
}

function adjusted(modelLogprobs: Float64Array, sampling: Sampling, seen: readonly number[]): Float64Array {
  const { logitBias, repetitionPenalty = 1 } = sampling;
  if (repetitionPenalty === 1 && !logitBias?.size) return modelLogprobs;
  const scores = modelLogprobs.slice();
  if (repetitionPenalty !== 1) {
    for (const tokenId of new Set(seen)) {
      const score = scores[tokenId] ?? 0;
      scores[tokenId] = score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
    }
  }
  for (const [tokenId, bias] of logitBias ?? []) scores[tokenId] = (scores[tokenId] ?? 0) + bias;
  return scores;
}

function filtered(ranked: readonly TokenLogprob[], topP: number, minP: number): readonly TokenLogprob[] {
  const total = ranked.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0);
  const least = (ranked[0]?.logprob ?? 0) + Math.log(minP);
  let before = 0;
  return ranked.filter(({ logprob }, rank) => {
    const isKept = rank === 0 || (before < topP * total && logprob >= least);
    before += Math.exp(logprob);
    return isKept;
  });
}

function likeliest(logprobs: Float64Array, count: number): readonly TokenLogprob[] {
  if (count === 0) return [];
  const ranked = Array.from(logprobs, (logprob, tokenId) => ({ tokenId, logprob }));
  return ranked.sort((left, right) => right.logprob - left.logprob || left.tokenId - right.tokenId).slice(0, count);
}

function logSoftmax(scores: Float64Array): Float64Array {
  const highest = scores.reduce((max, score) => Math.max(max, score), -Infinity);
  const logTotal = Math.log(scores.reduce((sum, score) => sum + Math.exp(score - highest), 0));
  return scores.map((score) => score - highest - logTotal);
}

/** A number in [0, 1) that depends on both arguments and on nothing else. */
function uniform(seed: number, position: number): number {
  return hash32(seed, position) / 2 ** 32;
}

/** Mixes two whole numbers into 32 bits; the last lines are the finalizer of MurmurHash3. */
function hash32(left: number, right: number): number {
  let hash = Math.imul((left % 2 ** 32) ^ Math.trunc(left / 2 ** 32), 0x9e3779b1) ^ Math.imul(right + 1, 0x85ebca77);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
