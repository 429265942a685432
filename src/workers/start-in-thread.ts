/** The owner's side: starts a thread whose module hosts an object with `hostInThread`. */
import type { RerollError } from "../errors/reroll-error.ts";
import type { HostOptions } from "./host-in-thread.ts";
import { Remote } from "./remote.ts";
import { type StartOptions, startWorker } from "./start-worker.ts";
import { threadTransport } from "./thread-transport.ts";

export interface StartInThreadOptions extends StartOptions, HostOptions {
  /** The error that calls get when the thread is gone; `how` is a verb with what belongs to it: "ended with code 1". */
  readonly lost: (how: string) => RerollError;
}

/**
 * Starts at once; `ready` says when the object is there.
 *
 * @param module the worker's module without its ending: `new URL("engine-worker", import.meta.url)`
 * @param source what the object is built from; plain data
 */
export function startInThread<Host extends object>(
  module: URL,
  source: unknown,
  { lost, carrier, wrap = (line) => line, ...settings }: StartInThreadOptions,
): Remote<Host> {
  const line = wrap(threadTransport(startWorker(module, source, settings)));
  return new Remote(line, { lost, ...(carrier !== undefined && { carrier }) });
}
