/**
 * A signal that follows another and can also be aborted on its own.
 *
 * Unlike AbortSignal.any it lets go of the outer signal when `unlink` is called, so that a signal that lives as long as the
 * run does not gather listeners.
 */
import { setMaxListeners } from "node:events";

export interface LinkedAbort {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Stops following. Call it when the work is over. */
  readonly unlink: () => void;
}

export function linkedAbort(outers: readonly AbortSignal[]): LinkedAbort {
  const controller = new AbortController();
  const abort = () => controller.abort();
  for (const outer of outers) {
    // Thousands of trajectories share the signal of a run, and each listener is removed again: no leak to warn of.
    setMaxListeners(0, outer);
    if (outer.aborted) abort();
    else outer.addEventListener("abort", abort, { once: true });
  }
  return {
    signal: controller.signal,
    abort,
    unlink: () => {
      for (const outer of outers) outer.removeEventListener("abort", abort);
    },
  };
}
