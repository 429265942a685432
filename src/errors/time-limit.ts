/**
 * A time limit on a call, taken back when the call has ended.
 *
 * The timer holds the signal: one of `AbortSignal.any` over `AbortSignal.timeout` is lost to the garbage collector on Node 20 and never fires,
 * and one of `AbortSignal.timeout` alone stays in memory until its time is up.
 */
import { setMaxListeners } from "node:events";

/** Runs `work` with a signal that follows `outer`, and that is aborted with a TimeoutError after `limitMs`. */
export async function withTimeLimit<Result>(
  limitMs: number,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const tooLong = () => controller.abort(new DOMException(`no answer within ${limitMs} ms`, "TimeoutError"));
  const follow = () => controller.abort(outer?.reason);
  const timer = setTimeout(tooLong, limitMs);
  if (outer !== undefined) {
    // Many calls may share the signal of a run, and each listener is removed again: no leak to warn of.
    setMaxListeners(0, outer);
    if (outer.aborted) follow();
    else outer.addEventListener("abort", follow, { once: true });
  }
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", follow);
  }
}
