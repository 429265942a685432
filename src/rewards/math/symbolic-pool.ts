/**
 * A few threads that compare LaTeX with a computer algebra system, each of which can be killed.
 *
 * Threads start when they are needed. A comparison waits for a free thread; its time limit starts when it runs, not when it
 * waits or the thread loads. One that passes its limit rejects with REWARD_TIMEOUT, one whose thread dies with REWARD_CRASHED, and
 * the thread is replaced when the next comparison comes.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../../errors/reroll-error.ts";
import { startWorker } from "../../workers/start-worker.ts";
import type { Verdict } from "./compare-expressions.ts";

export interface SymbolicRequest {
  readonly left: string;
  readonly right: string;
}

export type SymbolicReply = { readonly kind: "ready" } | { readonly kind: "verdict"; readonly verdict: Verdict };

export interface SymbolicPoolOptions {
  readonly numWorkers: number;
  readonly timeoutMs: number;
  /** Starts a thread that runs symbolic-worker.ts, or anything that speaks as it does. */
  readonly startWorker?: () => Worker;
}

interface Job {
  readonly request: SymbolicRequest;
  readonly signal: AbortSignal;
  readonly resolve: (verdict: Verdict) => void;
  readonly reject: (error: unknown) => void;
}

/** Loading takes a quarter of a second; this is for machines under load. */
const START_TIMEOUT_MS = 60_000;
const MEMORY_LIMIT_MB = 512;

export class SymbolicPool {
  readonly #options: SymbolicPoolOptions;
  readonly #waiting: Job[] = [];
  readonly #idle: Worker[] = [];
  readonly #workers = new Set<Worker>();
  #isClosed = false;

  constructor(options: SymbolicPoolOptions) {
    this.#options = options;
  }

  /** Rejects when the signal says so, and kills the thread if the comparison had begun. */
  compare(left: string, right: string, signal: AbortSignal): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed)
        throw new RerollError("REWARD_CLOSED", "This reward is closed. Build another one to score with.");
      signal.throwIfAborted();
      this.#waiting.push({ request: { left, right }, signal, resolve, reject });
      this.#advance();
    });
  }

  /** Ends all threads. What still waits or runs rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(crashed("the reward was closed", { left: "", right: "" }));
    await Promise.all([...this.#workers].map((worker) => worker.terminate()));
  }

  #advance(): void {
    while (this.#waiting.length > 0) {
      const idle = this.#idle.pop();
      if (idle === undefined && this.#workers.size >= this.#options.numWorkers) return;
      const job = this.#waiting.shift()!;
      if (job.signal.aborted) job.reject(job.signal.reason);
      else this.#runJob(job, idle ?? this.#start(), idle === undefined);
    }
  }

  #start(): Worker {
    const worker = (this.#options.startWorker ?? startSymbolicWorker)();
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

  #runJob({ request, signal, resolve, reject }: Job, worker: Worker, isStarting: boolean): void {
    const { timeoutMs } = this.#options;
    worker.ref();
    const kill = (reason: unknown) => {
      finish();
      reject(reason);
      void worker.terminate();
    };
    const abort = () => kill(signal.reason);
    const onError = (error: Error) => kill(crashed(error.message, request));
    const onExit = (code: number) => kill(crashed(`it ended with code ${code}`, request));
    const begin = () => {
      worker.postMessage(request);
      return setTimeout(() => kill(timedOut(timeoutMs, request)), timeoutMs);
    };
    let timer = isStarting ? setTimeout(() => kill(crashed("it did not start", request)), START_TIMEOUT_MS) : begin();
    const onMessage = (reply: SymbolicReply) => {
      clearTimeout(timer);
      if (reply.kind === "ready") {
        timer = begin();
        return;
      }
      finish();
      worker.unref();
      this.#idle.push(worker);
      resolve(reply.verdict);
      this.#advance();
    };
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
    };
    signal.addEventListener("abort", abort, { once: true });
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
  }
}

function startSymbolicWorker(): Worker {
  const resourceLimits = { maxOldGenerationSizeMb: MEMORY_LIMIT_MB };
  return startWorker(new URL("symbolic-worker", import.meta.url), null, { resourceLimits });
}

function timedOut(timeoutMs: number, request: SymbolicRequest): RerollError {
  return new RerollError(
    "REWARD_TIMEOUT",
    `The comparison of "${shorten(request.left)}" with "${shorten(request.right)}" took longer than ${timeoutMs} ms and was stopped. Raise timeoutMs if such answers are legitimate.`,
    { ...request, timeoutMs },
  );
}

function crashed(reason: string, request: SymbolicRequest): RerollError {
  return new RerollError("REWARD_CRASHED", `The thread that compares answers failed: ${reason}.`, { ...request });
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
