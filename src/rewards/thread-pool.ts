/**
 * A few threads for work that may never end, each of which can be killed.
 *
 * Threads start when they are needed. A request waits for a free thread; its time limit starts when it runs, not while it waits or
 * the thread loads. One that passes its limit rejects, as does one whose thread dies, and the thread is replaced when the next
 * request comes. A costly request does not hold up cheap ones: after a tenth of its limit it goes on beside the others, one such at a time;
 * where another one does so already, it waits for that and starts again. The thread's module says `{ kind: "ready" }` once it has loaded, then answers each message with one result.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";

/** What a thread of a pool posts. */
export type ThreadReply<Result> = { readonly kind: "ready" } | { readonly kind: "result"; readonly result: Result };

interface ThreadPoolOptions<Request> {
  readonly numWorkers: number;
  readonly timeoutMs: number;
  readonly startWorker: () => Worker;
  /** The error of a request that passed its time limit. */
  readonly timedOut: (request: Request) => RerollError;
  /** The error of a request whose thread died. */
  readonly crashed: (reason: string, request: Request) => RerollError;
}

interface Job<Request, Result> {
  readonly request: Request;
  readonly signal: AbortSignal;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Whether it has taken long already. */
  isSlow: boolean;
}

/** The share of its limit after which a request is slow. */
const SLOW_SHARE = 0.1;
/** Slow requests that run at the same time, each in a thread beyond `numWorkers`. */
const MAX_SLOW = 1;

/** Loading takes a quarter of a second; this is for machines under load. */
const START_TIMEOUT_MS = 60_000;

export class ThreadPool<Request, Result> {
  readonly #options: ThreadPoolOptions<Request>;
  readonly #waiting = new Set<Job<Request, Result>>();
  readonly #waitingSlow = new Set<Job<Request, Result>>();
  readonly #idle: Worker[] = [];
  readonly #workers = new Set<Worker>();
  #numSlow = 0;
  #isClosed = false;

  constructor(options: ThreadPoolOptions<Request>) {
    this.#options = options;
  }

  /** Rejects when the signal says so, and kills the thread if the request had begun. */
  run(request: Request, signal: AbortSignal): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed)
        throw new RerollError("REWARD_CLOSED", "This reward is closed. Build another one to score with.");
      signal.throwIfAborted();
      this.#waiting.add({ request, signal, resolve, reject, isSlow: false });
      this.#advance();
    });
  }

  /** Ends all threads. What still waits or runs rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiting of [this.#waiting, this.#waitingSlow]) {
      for (const { reject, request } of waiting) reject(this.#options.crashed("the reward was closed", request));
      waiting.clear();
    }
    await Promise.all([...this.#workers].map((worker) => worker.terminate()));
  }

  #advance(): void {
    for (const job of this.#waiting) {
      const idle = this.#idle.pop();
      if (idle === undefined && this.#workers.size - this.#numSlow >= this.#options.numWorkers) break;
      this.#waiting.delete(job);
      if (!job.signal.aborted) this.#runJob(job, idle ?? this.#start(), idle === undefined);
      else {
        if (idle !== undefined) this.#idle.push(idle);
        job.reject(job.signal.reason);
      }
    }
    for (const job of this.#waitingSlow) {
      if (this.#numSlow >= MAX_SLOW) return;
      this.#waitingSlow.delete(job);
      if (job.signal.aborted) job.reject(job.signal.reason);
      else this.#runJob(job, this.#start(), true);
    }
  }

  #start(): Worker {
    const worker = this.#options.startWorker();
    this.#workers.add(worker);
    // An idle thread keeps no process alive.
    worker.unref();
    worker.once("exit", () => {
      this.#workers.delete(worker);
      const position = this.#idle.indexOf(worker);
      if (position !== -1) this.#idle.splice(position, 1);
      if (!this.#isClosed) this.#advance();
    });
    return worker;
  }

  #runJob(job: Job<Request, Result>, worker: Worker, isStarting: boolean): void {
    const { request, signal, resolve, reject } = job;
    const { timeoutMs, timedOut, crashed } = this.#options;
    if (job.isSlow) this.#numSlow++;
    worker.ref();
    const kill = (reason: unknown) => {
      finish();
      reject(reason);
      void worker.terminate();
    };
    const abort = () => kill(signal.reason);
    const onError = (error: Error) => kill(crashed(error.message, request));
    const onExit = (code: number) => kill(crashed(`it ended with code ${code}`, request));
    const end = () => kill(timedOut(request));
    const begin = () => {
      worker.postMessage(request);
      return job.isSlow ? setTimeout(end, timeoutMs) : setTimeout(slow, SLOW_SHARE * timeoutMs);
    };
    const slow = () => {
      if (this.#numSlow < MAX_SLOW) {
        job.isSlow = true;
        this.#numSlow++;
        timer = setTimeout(end, (1 - SLOW_SHARE) * timeoutMs);
        this.#advance();
      } else {
        finish();
        job.isSlow = true;
        this.#waitingSlow.add(job);
        void worker.terminate();
      }
    };
    let timer = isStarting ? setTimeout(() => kill(crashed("it did not start", request)), START_TIMEOUT_MS) : begin();
    const onMessage = (reply: ThreadReply<Result>) => {
      clearTimeout(timer);
      if (reply.kind === "ready") {
        timer = begin();
        return;
      }
      finish();
      resolve(reply.result);
      // The thread of a slow request was one more than there should be.
      if (job.isSlow) void worker.terminate();
      else {
        worker.unref();
        this.#idle.push(worker);
      }
      this.#advance();
    };
    const finish = () => {
      if (job.isSlow) this.#numSlow--;
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
    };
    signal.addEventListener("abort", abort, { once: true });
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
  }
}
