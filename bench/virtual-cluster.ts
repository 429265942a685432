/**
 * Engines that are nothing but their speed, on a clock that jumps from one event to the next.
 *
 * A simulated engine draws one token for each of its running requests per step; how long a step takes depends on how many run. What is
 * real around them is whatever uses them: the router, the scheduler, the loop.
 */
import type { EngineStatus, ServedEngine } from "../src/generation/engine.ts";
import type { Generate, GenerateRequest, Generation } from "../src/generation/generate.ts";

/** Events in the order of their times. */
export class VirtualTime {
  #events: { readonly atMs: number; readonly run: () => void }[] = [];
  nowMs = 0;

  readonly clock = (): number => this.nowMs;

  after(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.at(this.nowMs + delayMs, resolve));
  }

  at(atMs: number, run: () => void): void {
    const heap = this.#events;
    let i = heap.push({ atMs, run }) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (heap[parent]!.atMs <= heap[i]!.atMs) break;
      [heap[parent], heap[i]] = [heap[i]!, heap[parent]!];
      i = parent;
    }
  }

  /** Runs events until the work is done. After each, everything that follows from it comes first. */
  async drive<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false;
    const ended = work.finally(() => {
      isDone = true;
    });
    ended.catch(() => {});
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (isDone) return ended;
      const event = this.#pop();
      if (event === undefined) throw new Error("Nothing will ever happen again, and the work is not done.");
      this.nowMs = event.atMs;
      event.run();
    }
  }

  #pop() {
    const heap = this.#events;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    heap[0] = last;
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      const least = right < heap.length && heap[right]!.atMs < heap[left]!.atMs ? right : left;
      if (least >= heap.length || heap[i]!.atMs <= heap[least]!.atMs) break;
      [heap[i], heap[least]] = [heap[least]!, heap[i]!];
      i = least;
    }
    return first;
  }
}

interface Speed {
  readonly maxRunning: number;
  /** Milliseconds of one step of this many requests. */
  readonly stepMs: (numRunning: number) => number;
}

interface Running {
  readonly numTokens: number;
  /** The count of steps at which it is over. */
  endStep: number;
  startVersion: number;
  isOver: boolean;
  readonly finish: (isAborted: boolean) => void;
}

/** One engine. `lengthOf` says how many tokens a reply has. */
export class VirtualEngine implements ServedEngine {
  readonly #time: VirtualTime;
  readonly #speed: Speed;
  readonly #lengthOf: (request: GenerateRequest) => number;
  #running: Running[] = [];
  #queued: Running[] = [];
  #steps = 0;
  #sinceMs = 0;
  #alarm = 0;
  #numTokens = 0;
  version = 0;
  /** Milliseconds in which it had nothing to do. */
  idleMs = 0;

  constructor(time: VirtualTime, speed: Speed, lengthOf: (request: GenerateRequest) => number) {
    this.#time = time;
    this.#speed = speed;
    this.#lengthOf = lengthOf;
  }

  readonly generate: Generate = (request) =>
    new Promise<Generation>((resolve) => {
      const numTokens = this.#lengthOf(request);
      const running: Running = {
        numTokens,
        endStep: 0,
        startVersion: this.version,
        isOver: false,
        finish: (isAborted) => {
          running.isOver = true;
          const numDrawn = isAborted ? 0 : numTokens;
          this.#numTokens += numDrawn;
          resolve(generationOf(request, numDrawn, running.startVersion, isAborted));
        },
      };
      request.signal?.addEventListener("abort", () => this.#abort(running), { once: true });
      this.#advance();
      this.#queued.push(running);
      this.#admit();
    });

  status(): EngineStatus {
    const counters = { requests: 0, finished: 0, aborted: 0, failed: 0, prefilledTokens: 0, cachedTokens: 0 };
    return {
      ...{ version: this.version, isPaused: false, maxQueuedRequests: 16_384, contextLength: 32_768, cacheUsage: 0 },
      ...{ queuedRequests: this.#queued.length, runningRequests: this.#running.length },
      counters: { ...counters, generatedTokens: this.#numTokens, steps: this.#steps },
    };
  }

  async abortAll(): Promise<void> {
    for (const one of [...this.#running, ...this.#queued]) this.#abort(one);
  }

  async close(): Promise<void> {}

  /** Brings the count of steps up to now. */
  #advance(): void {
    const passedMs = this.#time.nowMs - this.#sinceMs;
    this.#sinceMs = this.#time.nowMs;
    if (this.#running.length === 0) this.idleMs += passedMs;
    else this.#steps += passedMs / this.#speed.stepMs(this.#running.length);
  }

  #admit(): void {
    while (this.#queued.length > 0 && this.#running.length < this.#speed.maxRunning) {
      const next = this.#queued.shift()!;
      next.endStep = this.#steps + next.numTokens;
      next.startVersion = this.version;
      this.#running.push(next);
    }
    this.#setAlarm();
  }

  #setAlarm(): void {
    const alarm = ++this.#alarm;
    if (this.#running.length === 0) return;
    let end = Number.POSITIVE_INFINITY;
    for (const { endStep } of this.#running) end = Math.min(end, endStep);
    const delayMs = (end - this.#steps) * this.#speed.stepMs(this.#running.length);
    this.#time.at(this.#time.nowMs + Math.max(0, delayMs), () => {
      // Others have come or gone meanwhile, and set another one.
      if (alarm === this.#alarm) this.#ring();
    });
  }

  #ring(): void {
    this.#advance();
    const over = this.#running.filter(({ endStep }) => endStep <= this.#steps + 1e-6);
    this.#running = this.#running.filter((one) => !over.includes(one));
    for (const one of over) one.finish(false);
    this.#admit();
  }

  #abort(one: Running): void {
    if (one.isOver) return;
    this.#advance();
    this.#running = this.#running.filter((other) => other !== one);
    this.#queued = this.#queued.filter((other) => other !== one);
    one.finish(true);
    this.#admit();
  }
}

/** A reply. Its arrays are parts of ones that all replies share: what tokens themselves take is known, 24 bytes each. */
function generationOf({ promptIds }: GenerateRequest, length: number, version: number, isAborted: boolean): Generation {
  const floats = ZEROS.subarray(0, length);
  const versions = versionsOf(version).subarray(0, length);
  return {
    tokenIds: versionsOf(0).subarray(0, length),
    ...{ samplerLogprobs: floats, drawLogprobs: floats, modelLogprobs: floats, versions, cacheVersions: versions },
    finish: isAborted ? { kind: "aborted" } : { kind: "stop", by: "token", tokenId: 0 },
    usage: { promptTokens: promptIds.length, cachedTokens: 0, generatedTokens: length },
  };
}

const MOST_TOKENS = 16_384;
const ZEROS = new Float32Array(MOST_TOKENS);
const shared = new Map<number, Int32Array>();

function versionsOf(version: number): Int32Array {
  const known = shared.get(version) ?? new Int32Array(MOST_TOKENS).fill(version);
  shared.set(version, known);
  return known;
}
