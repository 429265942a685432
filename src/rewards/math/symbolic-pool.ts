/**
 * A few threads that compare LaTeX with a computer algebra system.
 *
 * One that passes its time limit rejects with REWARD_TIMEOUT, one whose thread dies with REWARD_CRASHED. See thread-pool.ts.
 */
import type { Worker } from "node:worker_threads";
import { RerollError } from "../../errors/reroll-error.ts";
import { startWorker } from "../../workers/start-worker.ts";
import { ThreadPool } from "../thread-pool.ts";
import type { Verdict } from "./compare-expressions.ts";

export interface SymbolicRequest {
  readonly left: string;
  readonly right: string;
}

export interface SymbolicPoolOptions {
  readonly numWorkers: number;
  readonly timeoutMs: number;
  /** Starts a thread that runs symbolic-worker.ts, or anything that speaks as it does. */
  readonly startWorker?: () => Worker;
}

const MEMORY_LIMIT_MB = 512;

export class SymbolicPool {
  readonly #threads: ThreadPool<SymbolicRequest, Verdict>;

  constructor({ numWorkers, timeoutMs, startWorker: start = startSymbolicWorker }: SymbolicPoolOptions) {
    this.#threads = new ThreadPool({
      numWorkers,
      timeoutMs,
      startWorker: start,
      timedOut: (request) => timedOut(timeoutMs, request),
      crashed,
    });
  }

  /** Rejects when the signal says so, and kills the thread if the comparison had begun. */
  compare(left: string, right: string, signal: AbortSignal): Promise<Verdict> {
    return this.#threads.run({ left, right }, signal);
  }

  /** Ends all threads. What still waits or runs rejects. */
  close(): Promise<void> {
    return this.#threads.close();
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
