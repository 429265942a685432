/** Starting a worker, wherever it runs: `startInThread`, `startInProcess`, and the `start` of a machine that has joined. */
import type { Remote } from "./remote.ts";
import type { StartInThreadOptions } from "./start-in-thread.ts";

/**
 * Starts at once; `ready` says when the object is there.
 *
 * @param module the worker's module without its ending: `new URL("engine-worker", import.meta.url)`
 * @param source what the object is built from; plain data
 */
export type Start = <Host extends object>(
  module: URL,
  source: unknown,
  options: Pick<StartInThreadOptions, "lost" | "carrier">,
) => Remote<Host>;
