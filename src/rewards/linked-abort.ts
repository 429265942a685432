/**
 * A signal that follows another and can also be aborted on its own.
 *
 * Unlike AbortSignal.any it lets go of the outer signal when `unlink` is called, so that a signal that lives as long as the
 * run does not gather listeners.
 */
import { setMaxListeners } from "node:events";
import { RerollError } from "../errors/reroll-error.ts";

export interface LinkedAbort {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Stops following. Call it when the work is over. */
  readonly unlink: () => void;
}

/** The same for a signal that nothing else hangs on. Signals are dear where thousands of trajectories end at once: 2 microseconds and a kilobyte each. */
export function ownAbort(controller: AbortController): LinkedAbort {
  return { signal: controller.signal, abort: () => controller.abort(CALLED_OFF), unlink: () => {} };
}

/** One for all: without a reason every abort would make an error with a stack of its own, and every reward ends in an abort. */
const CALLED_OFF = new RerollError("ABORTED", "The scoring was called off.");

export function linkedAbort(outer: AbortSignal): LinkedAbort {
  const controller = new AbortController();
  const abort = () => controller.abort(CALLED_OFF);
  // Thousands of trajectories share the signal of a run, and each listener is removed again: no leak to warn of.
  setMaxListeners(0, outer);
  if (outer.aborted) abort();
  else outer.addEventListener("abort", abort, { once: true });
  return {
    signal: controller.signal,
    abort,
    unlink: () => outer.removeEventListener("abort", abort),
  };
}
