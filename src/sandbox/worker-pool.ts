/**
 * A sandbox made of workers, each of which runs one program at a time.
 *
 * In: how to start a worker. Out: a `Sandbox`. Workers start when they are needed, and are replaced when they break or have
 * run their share. A program whose worker breaks is run once more in a fresh one; when that breaks too, the run rejects.
 * Waits for: a free worker, in the order of the calls. Is freed by: the end of a run, `close`, the signal of the caller.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Sandbox, SandboxProgram, SandboxResult } from "./sandbox.ts";

/** One process or thread that runs programs. */
export interface SandboxWorker {
  /** Rejects with `WORKER_LOST` when the worker breaks or is stopped. It must not be used after that. */
  readonly run: (program: SandboxProgram) => Promise<SandboxResult>;
  /** Whether the worker is gone, by itself or because it was stopped: it is replaced then. */
  readonly hasEnded: () => boolean;
  /** Ends the worker and what runs in it, now. Resolves when it is gone; may be called twice. */
  readonly stop: () => Promise<void>;
}

interface WorkerPoolOptions {
  readonly start: () => Promise<SandboxWorker>;
  readonly numWorkers: number;
  /** A worker is replaced after this many runs. */
  readonly runsPerWorker: number;
  /** More waiting programs than this are refused. */
  readonly maxQueued: number;
}

/** The error of a worker that broke or was stopped during a run. */
export function workerLost(why: string): RerollError {
  return new RerollError("WORKER_LOST", `The sandbox worker ended during a run: ${why}.`);
}

/** Starts one worker to see that the sandbox works, and throws what that one throws. */
export async function createWorkerPool(options: WorkerPoolOptions): Promise<Sandbox> {
  const pool = new WorkerPool(options);
  pool.keep({ worker: await options.start(), numRuns: 0 });
  return pool;
}

interface Member {
  readonly worker: SandboxWorker;
  numRuns: number;
}

class WorkerPool implements Sandbox {
  readonly #idle: Member[] = [];
  readonly #waiting: (() => void)[] = [];
  /** Runs and stops that `close` has to wait for. */
  readonly #pending = new Set<Promise<unknown>>();
  /** One per run, waiting or not: aborted by the caller or by `close`. */
  readonly #controllers = new Set<AbortController>();
  #isClosed = false;
  #numRunning = 0;
  readonly #options: WorkerPoolOptions;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  keep(member: Member): void {
    this.#idle.push(member);
  }

  readonly run = (program: SandboxProgram, signal?: AbortSignal): Promise<SandboxResult> =>
    this.#track(this.#runUntilAborted(program, signal));

  readonly close = async (): Promise<void> => {
    this.#isClosed = true;
    for (const controller of this.#controllers) controller.abort(closedError());
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    await Promise.all(this.#idle.splice(0).map(({ worker }) => worker.stop()));
  };

  async #runUntilAborted(program: SandboxProgram, signal?: AbortSignal): Promise<SandboxResult> {
    if (this.#isClosed) throw closedError();
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    this.#controllers.add(controller);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      return await this.#runWhenFree(program, controller.signal);
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#controllers.delete(controller);
    }
  }

  async #runWhenFree(program: SandboxProgram, signal: AbortSignal): Promise<SandboxResult> {
    if (this.#numRunning >= this.#options.numWorkers) await this.#waitForTurn(signal);
    else this.#numRunning++;
    try {
      return await this.#runWithRetry(program, signal);
    } finally {
      // The turn passes on to the next in line, if there is one.
      const next = this.#waiting.shift();
      if (next === undefined) this.#numRunning--;
      else next();
    }
  }

  #waitForTurn(signal: AbortSignal): Promise<void> {
    const { maxQueued } = this.#options;
    if (this.#waiting.length >= maxQueued) {
      throw new RerollError(
        "QUEUE_FULL",
        `${maxQueued} programs wait for the sandbox already. Wait for some to end, or raise maxQueued.`,
        { maxQueued },
      );
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(start), 1);
        reject(signal.reason);
      };
      this.#waiting.push(start);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  async #runWithRetry(program: SandboxProgram, signal: AbortSignal): Promise<SandboxResult> {
    try {
      return await this.#runOnce(program, signal);
    } catch (error) {
      if (!isWorkerLost(error)) throw error;
    }
    try {
      return await this.#runOnce(program, signal);
    } catch (error) {
      if (!isWorkerLost(error)) throw error;
      throw new RerollError(
        "SANDBOX_FAILED",
        `The sandbox broke twice while it ran the same program. ${error.message} Look whether the machine is short of memory.`,
        {},
        { cause: error },
      );
    }
  }

  async #runOnce(program: SandboxProgram, signal: AbortSignal): Promise<SandboxResult> {
    signal.throwIfAborted();
    const member = this.#takeIdle() ?? { worker: await this.#options.start(), numRuns: 0 };
    const stop = () => void this.#track(member.worker.stop());
    signal.addEventListener("abort", stop, { once: true });
    try {
      signal.throwIfAborted();
      const result = await member.worker.run(program);
      member.numRuns++;
      if (signal.aborted || member.worker.hasEnded() || member.numRuns >= this.#options.runsPerWorker) stop();
      else this.keep(member);
      return result;
    } catch (error) {
      stop();
      throw signal.aborted ? signal.reason : error;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  /** A worker may end while it waits. */
  #takeIdle(): Member | undefined {
    let member = this.#idle.pop();
    while (member?.worker.hasEnded() === true) {
      void this.#track(member.worker.stop());
      member = this.#idle.pop();
    }
    return member;
  }

  #track<Value>(work: Promise<Value>): Promise<Value> {
    this.#pending.add(work);
    const forget = () => this.#pending.delete(work);
    work.then(forget, forget);
    return work;
  }
}

function closedError(): RerollError {
  return new RerollError("SANDBOX_CLOSED", "The sandbox is closed. Create a new one to run programs.");
}

function isWorkerLost(error: unknown): error is RerollError {
  return error instanceof RerollError && error.code === "WORKER_LOST";
}
