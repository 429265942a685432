/**
 * The engine: continuous batching over a paged cache, in the thread that made it.
 *
 * Requests join and leave between steps. A step is synchronous; between steps the thread's event loop runs, so messages,
 * aborts and new weights come in. Waits for: requests, `resume`. For an engine in its own thread see threaded-engine.ts.
 *
 * On a GPU the next step is launched before the present one is read, where it needs nothing from the host: the device goes
 * on while tokens are delivered. What such a step draws for a sequence that has ended by then is dropped, and all of it
 * when new weights come: a draw depends on its seed and position alone, so drawing again changes nothing else. Prompts go
 * the same way: while more of them wait, the next ones are launched before the first tokens after the present ones are read.
 * Masks of replies with a constraint are made while the step that they are for is on its way: its draw is launched when they are there.
 */
import type { Tokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { modelBytes } from "../../models/causal-lm/quantize-model.ts";
import { tensor } from "../../torch/create.ts";
import { devicePeakBytes } from "../../torch/memory.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { checkRequest } from "../check-request.ts";
import { type Guide, Guides } from "../constraint/guides.ts";
import type { Engine, EngineStatus } from "../engine.ts";
import type { Finish, GenerateRequest, Generation } from "../generate.ts";
import { BlockPool } from "./block-pool.ts";
import type { LaunchedStep } from "./decode-graphs.ts";
import { deliverTokens } from "./deliver-tokens.ts";
import { notFinite, stuck } from "./draw-failures.ts";
import { drawRequest, isPlainDecode } from "./draw-request.ts";
import { type DrawnRows, isDrawn } from "./drawn-rows.ts";
import { type EngineOptions, type LocalEngineOptions, resolveOptions } from "./engine-options.ts";
import { ModelRunner } from "./model-runner.ts";
import { cacheOf, numStateSlots, type PagedCache } from "./paged-cache.ts";
import { launchDraws } from "./sampler.ts";
import { type CacheCopy, type Piece, Scheduler } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { SessionCache } from "./session-cache.ts";
import { StopTextFinder } from "./stop-text-finder.ts";

interface Pending {
  readonly request: GenerateRequest;
  readonly resolve: (generation: Generation) => void;
  readonly stopText: StopTextFinder | null;
}

/** The next tokens of sequences, on their way. */
interface UnreadDraws {
  /** One row each. */
  readonly drawing: readonly Sequence[];
  readonly read: () => DrawnRows;
}

/** A step with prompts that is on its way. */
interface UnreadStep extends UnreadDraws {
  readonly sequences: readonly Sequence[];
  /** The version of the weights that compute it. */
  readonly version: number;
}

export class LocalEngine implements Engine {
  readonly #model: CausalLm;
  readonly #tokenizer: Tokenizer | undefined;
  readonly #options: Required<EngineOptions>;
  readonly #pool: BlockPool;
  readonly #cache: PagedCache;
  readonly #scheduler: Scheduler;
  readonly #runner: ModelRunner;
  /** Absent without a tokenizer. */
  readonly #guides: Guides | undefined;
  readonly #pending = new Map<Sequence, Pending>();
  readonly #counters = {
    requests: 0,
    finished: 0,
    aborted: 0,
    failed: 0,
    prefilledTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    steps: 0,
  };
  /** The step after the last one that was read, when it is on its way. */
  #ahead: LaunchedStep | null = null;
  /** Steps with prompts that are on their way: one, or two while the second is being launched. */
  readonly #unread: UnreadStep[] = [];
  #version: number;
  #isPaused = false;
  /** Whether the weights are about to change, or changing. */
  #isHeld = false;
  #isLent = false;
  readonly #weightBytes: number;
  readonly #onRelease: (() => void)[] = [];
  #isClosed = false;
  #isLooping = false;

  /** The engine reads the model's weights where they are; the model stays the caller's. */
  constructor(model: CausalLm, options: LocalEngineOptions = {}) {
    this.#model = model;
    this.#weightBytes = modelBytes(model);
    this.#tokenizer = options.tokenizer;
    this.#options = resolveOptions(model, options);
    this.#version = options.version ?? 0;
    const { numBlocks, blockSize, contextLength, maxRunning, maxStepTokens, isSteady, reprefills } = this.#options;
    this.#pool = new BlockPool(numBlocks, blockSize);
    this.#cache = cacheOf(model, this.#options);
    this.#runner = new ModelRunner(model, this.#cache, { maxRunning, contextLength, isSteady, others: options.others });
    const states = this.#cache.hasStates ? new BlockPool(numStateSlots(maxRunning), 1) : null;
    this.#scheduler = new Scheduler(
      this.#pool,
      new SessionCache(this.#pool, states),
      { maxRunning, maxStepTokens, reprefills, gathersPrompts: this.#runner.canLaunch },
      this.#version,
      states,
    );
    this.#guides = options.tokenizer && new Guides(options.tokenizer, model.config.vocabSize);
  }

  /** Does now what the first step of every batch size would have to do, and its requests to wait for. */
  prepare(): void {
    this.#runner.prepare();
  }

  readonly generate = async (request: GenerateRequest): Promise<Generation> => {
    const { signal } = request;
    const { generation, abort } = this.begin(request);
    if (signal === undefined) return generation;
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    return generation.finally(() => signal.removeEventListener("abort", abort));
  };

  /** What `generate` does, for whoever ends requests by hand: it looks at no signal. Throws for one that can never work. */
  begin(request: GenerateRequest): { readonly generation: Promise<Generation>; readonly abort: () => void } {
    this.#admit(request);
    const id = this.#counters.requests++;
    const { constraint } = request.sampling;
    if (constraint === undefined) return this.#enqueue(id, request, null);
    // As it was admitted: the caller may go on with the array while the grammar is compiled.
    const promptIds = Int32Array.from(request.promptIds);
    let abort = () => {};
    const start = async () => {
      const guide = await this.#guides!.open(constraint, request.sampling.stopIds ?? []);
      const begun = this.#enqueue(id, { ...request, promptIds }, guide);
      // Aborted, or closed, while the grammar was compiled.
      if (isAborted || this.#isClosed) begun.abort();
      abort = begun.abort;
      return begun.generation;
    };
    let isAborted = false;
    return {
      generation: start(),
      abort: () => {
        isAborted = true;
        abort();
      },
    };
  }

  #enqueue(id: number, request: GenerateRequest, guide: Guide | null) {
    const sequence = new Sequence(id, request, request.sampling.seed ?? this.#options.seed + id, guide);
    const { stopStrings = [] } = request.sampling;
    const stopText = stopStrings.length === 0 ? null : new StopTextFinder(this.#tokenizer!, stopStrings);
    const generation = new Promise<Generation>((resolve) =>
      this.#pending.set(sequence, { request, resolve, stopText }),
    );
    this.#scheduler.add(sequence);
    this.#wake();
    return { generation, abort: () => this.#end(sequence, { kind: "aborted" }) };
  }

  readonly scorePrompt = async (promptIds: Int32Array): Promise<Float32Array> => {
    const { contextLength } = this.#options;
    checkRequest({ promptIds, sampling: { maxTokens: 1 } }, { contextLength, vocabSize: this.#model.config.vocabSize });
    if (this.#isHeld) await new Promise<void>((resolve) => this.#onRelease.push(resolve));
    if (this.#isClosed) throw new RerollError("ENGINE_CLOSED", "This engine is closed.");
    return this.#runner.scorePrompt(promptIds);
  };

  pause(): Promise<void> {
    this.#isPaused = true;
    return Promise.resolve();
  }

  resume(): void {
    this.#isPaused = false;
    this.#wake();
  }

  /**
   * New weights between two steps: `apply` writes them, and every token drawn from now on carries this version. It may be lower than
   * the one before: versions are counted by whoever publishes, and an engine may serve several of them one after another.
   */
  updateWeights(version: number, apply: (model: CausalLm) => void): void {
    if (!Number.isSafeInteger(version) || version < 0) {
      throw new RerollError("INVALID_VERSION", `version must be a whole number of at least 0: got ${version}.`);
    }
    this.#ahead = null;
    this.#readUnread();
    this.#runner.changeWeights(apply);
    this.#version = version;
    this.#scheduler.setVersion(version);
  }

  /**
   * From now on the engine reads weights that are another's, who changes them only while the engine is held. `adopt` puts them in the place
   * of its own; what was recorded over those is recorded again.
   */
  shareWeights(version: number, adopt: (model: CausalLm) => void): void {
    this.updateWeights(version, adopt);
    if (!this.#isLent) this.#runner.prepareAgain();
    this.#isLent = true;
    this.release();
  }

  /** Computes nothing more, while weights change, until `release`. Requests wait. */
  hold(): void {
    this.#ahead = null;
    // What is on its way reads the weights.
    this.#readUnread();
    this.#isHeld = true;
  }

  /** Goes on after `hold`. */
  release(): void {
    this.#isHeld = false;
    for (const go of this.#onRelease.splice(0)) go();
    this.#wake();
  }

  /**
   * Gives the memory of the cache back until the next step needs it. Requests wait where they are, and compute their keys and values
   * again.
   */
  sleep(): void {
    this.#ahead = null;
    this.#readUnread();
    this.#scheduler.forgetCaches();
    this.#runner.sleep();
  }

  abortAll(): Promise<void> {
    for (const sequence of [...this.#pending.keys()]) this.#end(sequence, { kind: "aborted" });
    return Promise.resolve();
  }

  /** Steps so far: what has changed since the last status can be asked for at little cost. */
  get numSteps(): number {
    return this.#counters.steps;
  }

  status(): EngineStatus {
    const { maxQueued, contextLength, numBlocks } = this.#options;
    return {
      version: this.#version,
      isPaused: this.#isPaused,
      queuedRequests: this.#scheduler.numWaiting,
      runningRequests: this.#scheduler.numRunning,
      maxQueuedRequests: maxQueued,
      contextLength,
      ...(this.#runner.decoding !== null && { decoding: this.#runner.decoding }),
      cacheUsage: 1 - this.#pool.numAvailable / numBlocks,
      memoryBytes: this.#cache.bytes + (this.#isLent ? 0 : this.#weightBytes),
      peakBytes: devicePeakBytes(this.#cache.device),
      counters: { ...this.#counters },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.release();
    await this.abortAll();
    this.#ahead = null;
    this.#readUnread();
    await this.#guides?.close();
    this.#runner.dispose();
    this.#cache.dispose();
  }

  #admit(request: GenerateRequest): void {
    if (this.#isClosed) throw new RerollError("ENGINE_CLOSED", "This engine is closed.");
    const { contextLength, maxQueued } = this.#options;
    checkRequest(request, { vocabSize: this.#model.config.vocabSize, contextLength });
    const { stopStrings, constraint } = request.sampling;
    const wordy = stopStrings?.length ? "stopStrings" : constraint === undefined ? undefined : "constraint";
    if (wordy !== undefined && this.#tokenizer === undefined) {
      throw new RerollError("INVALID_REQUEST", `${wordy} needs an engine with a tokenizer. Pass one, or use stopIds.`);
    }
    if (this.#scheduler.numWaiting >= maxQueued) {
      throw new RerollError(
        "QUEUE_FULL",
        `The engine has ${maxQueued} requests waiting, as many as it takes. Try again later.`,
      );
    }
  }

  get #mayStep(): boolean {
    return !this.#isPaused && !this.#isHeld && !this.#isClosed && !this.#runner.isBroken;
  }

  /** Steps while there is work, one at a time, letting the event loop run in between. */
  #wake(): void {
    if (this.#isLooping || !this.#mayStep) return;
    this.#isLooping = true;
    const turn = () => {
      const hasWork = this.#mayStep && this.#step();
      if (hasWork) return void setImmediate(turn);
      this.#isLooping = false;
    };
    setImmediate(turn);
  }

  /** One step. False when there was nothing to do. */
  #step(): boolean {
    const unread = this.#unread.at(-1);
    // Its tokens are needed by every step but one of further prompts.
    if (unread !== undefined && !this.#scheduler.hasPrompts) {
      this.#readUnread();
      return true;
    }
    const ahead = this.#ahead;
    this.#ahead = null;
    const pieces = ahead === null ? this.#scheduler.plan() : [];
    const sequences = ahead?.sequences ?? pieces.map(({ sequence }) => sequence);
    const failure = sequences.length > 0 ? this.#compute(ahead, pieces, sequences) : null;
    const isPrompt = this.#unread.at(-1) !== unread;
    this.#readUnread(isPrompt && this.#runner.canLaunch && this.#scheduler.hasPrompts ? 1 : 0);
    if (failure !== null && !this.#runner.isBroken) this.#failAll(sequences, failure.cause);
    return sequences.length > 0 || unread !== undefined;
  }

  /** A step that fails takes its sequences with it, and nothing else: they end with the reason, which this returns. */
  #compute(
    ahead: LaunchedStep | null,
    pieces: readonly Piece[],
    sequences: readonly Sequence[],
  ): { readonly cause: unknown } | null {
    this.#counters.steps++;
    try {
      this.#cache.allocate();
      if (ahead !== null) this.#finishStep(ahead);
      else if (this.#runner.canLaunch && pieces.every(isPlainDecode))
        this.#finishStep(this.#runner.launch(sequences, null));
      else this.#runPieces(pieces, sequences);
      return null;
    } catch (cause) {
      this.#ahead = null;
      return { cause };
    }
  }

  #runPieces(pieces: readonly Piece[], sequences: readonly Sequence[]): void {
    const { drawing, read } = this.#runner.run(pieces, (scores, ending) => this.#advance(pieces, ending, scores));
    this.#unread.push({ sequences, version: this.#version, drawing, read });
  }

  /** Waits for a step with prompts. Callbacks run here, where no scope owns their tensors, and may bring new weights. */
  #read({ sequences, version, drawing, read }: UnreadStep): void {
    try {
      this.#takeAll(drawing, read(), version);
    } catch (error) {
      this.#failAll(sequences, error);
    }
  }

  /** Reads the steps with prompts that are on their way, oldest first, except the last `numKept`. */
  #readUnread(numKept = 0): void {
    while (this.#unread.length > numKept) this.#read(this.#unread.shift()!);
  }

  /** Reads a step that was launched, after launching the one that follows it. */
  #finishStep(step: LaunchedStep): void {
    const version = this.#version;
    this.#drawMasked(step);
    this.#ahead = this.#launchAfter(step);
    const rows = step.read();
    // All of them before the first callback, which may bring new weights and have the scheduler take every cache away.
    for (const sequence of step.sequences) {
      if (this.#pending.has(sequence)) this.#scheduler.completeToken(sequence);
    }
    this.#takeAll(step.sequences, rows, version);
  }

  /** Draws for replies with a constraint: their masks come from the tokens that were read while this step was on its way. */
  #drawMasked(step: LaunchedStep): void {
    const { sequences } = step;
    if (sequences.every(({ guide }) => guide === null)) return;
    step.draw(sequences.map((sequence) => (this.#pending.has(sequence) && sequence.guide?.mask) || null));
  }

  /** Launches the next step from the tokens that this one is drawing; null when that has to wait for the host. */
  #launchAfter({ sequences }: LaunchedStep): LaunchedStep | null {
    const from: number[] = [];
    const next: Sequence[] = [];
    let numEnding = 0;
    for (let row = 0; row < sequences.length; row++) {
      const sequence = sequences[row]!;
      if (!this.#pending.has(sequence)) continue;
      if (this.#lengthFinish(sequence, 1) !== null) numEnding++;
      else {
        next.push(sequence);
        from.push(row);
      }
    }
    return this.#scheduler.reserveAhead(next, numEnding) ? this.#runner.launch(next, from) : null;
  }

  /** Records what was computed, and starts to draw the next token of every sequence that is through. */
  #advance(pieces: readonly Piece[], ending: readonly Piece[], scores: Tensor | null): UnreadDraws {
    const drawing: Sequence[] = [];
    const rows: number[] = [];
    const blocks: CacheCopy[] = [];
    const stateRows: CacheCopy[] = [];
    for (const piece of pieces) {
      const isPrompt = piece.sequence.numDrawn === 0;
      if (isPrompt) this.#counters.prefilledTokens += piece.numTokens;
      const { followers, ...copies } = this.#scheduler.complete(piece);
      blocks.push(...copies.blocks);
      stateRows.push(...copies.stateRows);
      if (!piece.isLast) continue;
      const row = ending.indexOf(piece);
      drawing.push(piece.sequence, ...followers);
      while (rows.length < drawing.length) rows.push(row);
    }
    // All at once: a copy is a few operators per layer, however many blocks it moves.
    this.#runner.copy(blocks, stateRows);
    if (scores === null) return { drawing, read: () => noRows };
    return { drawing, read: launchDraws(pickRows(scores, rows), drawing.map(drawRequest)) };
  }

  #takeAll(sequences: readonly Sequence[], rows: DrawnRows, version: number): void {
    for (let row = 0; row < sequences.length; row++) this.#take(sequences[row]!, rows, row, version);
  }

  /** Gives a sequence its next token, and ends it if that was the last. */
  #take(sequence: Sequence, rows: DrawnRows, row: number, version: number): void {
    const pending = this.#pending.get(sequence);
    // The callback of another request may have aborted this one.
    if (pending === undefined) return;
    if (!isDrawn(rows, row)) {
      this.#end(sequence, { kind: "failed", error: sequence.guide?.isStuck ? stuck() : notFinite() });
      return;
    }
    if (sequence.numDrawn === 0) this.#counters.cachedTokens += sequence.numCached;
    sequence.append(rows, row, version);
    const tokenId = rows.tokenIds[row]!;
    sequence.guide?.accept(tokenId);
    this.#counters.generatedTokens++;
    const { onTokens } = pending.request;
    const failure = onTokens === undefined ? null : deliverTokens(onTokens, sequence.lastDrawn());
    const finish = failure ?? this.#finishOf(sequence, tokenId, pending.stopText);
    if (finish !== null) this.#end(sequence, finish);
  }

  #finishOf(sequence: Sequence, tokenId: number, stopText: StopTextFinder | null): Finish | null {
    if (sequence.sampling.stopIds?.includes(tokenId)) return { kind: "stop", by: "token", tokenId };
    const text = stopText?.push(tokenId);
    if (text !== undefined) return { kind: "stop", by: "string", text };
    return this.#lengthFinish(sequence, 0);
  }

  /** How a sequence with this many more tokens ends for its length, if it does. */
  #lengthFinish(sequence: Sequence, numMore: number): Finish | null {
    if (sequence.numDrawn + numMore >= sequence.sampling.maxTokens) return { kind: "length", limit: "max-tokens" };
    if (sequence.length + numMore >= this.#options.contextLength) return { kind: "length", limit: "context" };
    return null;
  }

  #failAll(sequences: readonly Sequence[], cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const error = new RerollError("STEP_FAILED", `A generation step failed: ${reason}`, {}, { cause });
    const inStep = new Set(sequences);
    // Those with nothing pending were to start from the scores of this step.
    const failed = [...this.#pending.keys()].filter((one) => inStep.has(one) || one.numPending === 0);
    for (const sequence of failed) this.#end(sequence, { kind: "failed", error });
  }

  #end(sequence: Sequence, finish: Finish): void {
    const pending = this.#pending.get(sequence);
    if (pending === undefined) return;
    this.#pending.delete(sequence);
    this.#scheduler.remove(sequence);
    sequence.guide?.dispose();
    this.#counters[finish.kind === "aborted" ? "aborted" : finish.kind === "failed" ? "failed" : "finished"]++;
    // Not by a literal that begins with a spread: Node 20 gives each of those a hidden class of its own.
    pending.resolve(Object.assign(sequence.reply(), { finish, usage: sequence.usage() }));
  }
}

const noRows: DrawnRows = { tokenIds: [], samplerLogprobs: [], modelLogprobs: [], drawLogprobs: [] };

/** Rows in this order; the scores themselves where that is what they are. */
function pickRows(scores: Tensor, rows: readonly number[]): Tensor {
  if (rows.length === scores.size(0) && rows.every((row, i) => row === i)) return scores;
  return scores.indexSelect(0, tensor(Int32Array.from(rows), [rows.length], { device: scores.device, dtype: "int64" }));
}
