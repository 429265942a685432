/**
 * Runs at most so many tasks at once; the others wait in order.
 *
 * A task waits for a slot and frees it when it settles. A task that would make the queue longer than `maxQueued` is
 * refused, and one whose signal says so leaves the queue.
 */
import { RerollError } from "../errors/reroll-error.ts";

export interface PoolLimits {
  /** Tasks at the same time. */
  readonly concurrency: number;
  /** Tasks that may wait. More are refused, because they mean that whoever sends them does not wait for the answers. */
  readonly maxQueued: number;
}

interface BoundedPool {
  /** Rejects with QUEUE_FULL or ABORTED where the task does not get to run. */
  run<T>(task: () => Promise<T>, signal: AbortSignal): Promise<T>;
  readonly numRunning: number;
  readonly numQueued: number;
}

export function createBoundedPool({ concurrency, maxQueued }: PoolLimits): BoundedPool {
  const waiting = new Set<() => void>();
  let numRunning = 0;

  /** Null where there is one at once. */
  const slot = (signal: AbortSignal): Promise<void> | null => {
    if (signal.aborted) return Promise.reject(abortedError());
    if (numRunning < concurrency) {
      numRunning++;
      return null;
    }
    if (waiting.size >= maxQueued) return Promise.reject(fullError(maxQueued));
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        waiting.delete(start);
        reject(abortedError());
      };
      waiting.add(start);
      signal.addEventListener("abort", leave, { once: true });
    });
  };

  /** The slot goes to the one who has waited longest, or back. */
  const free = () => {
    const [next] = waiting;
    if (next === undefined) {
      numRunning--;
      return;
    }
    waiting.delete(next);
    next();
  };

  return {
    run: async (task, signal) => {
      const wait = slot(signal);
      if (wait !== null) await wait;
      try {
        return await task();
      } finally {
        free();
      }
    },
    get numRunning() {
      return numRunning;
    },
    get numQueued() {
      return waiting.size;
    },
  };
}

/** The error of work that was called off. */
export function abortedError(): RerollError {
  return new RerollError("ABORTED", "The scoring was called off.");
}

function fullError(maxQueued: number): RerollError {
  return new RerollError(
    "QUEUE_FULL",
    `The queue is full: ${maxQueued} tasks wait. Keep fewer trajectories in flight, or raise maxQueued.`,
    { maxQueued },
  );
}
