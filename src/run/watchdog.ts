/**
 * Watches the main thread of a run that calls code of others there.
 *
 * A loop that never ends, in an agent, say, stops everything that the main thread does: timers, signals, the console. A second
 * thread notices, says which call it is, and lets the run be stopped: see `watchdog-worker.ts`.
 */
import { url as debuggerUrl } from "node:inspector";
import { isMainThread } from "node:worker_threads";
import { whereNow } from "../rollout/foreign-calls.ts";
import { loadSignals } from "../workers/signals.ts";
import { startWorker } from "../workers/start-worker.ts";

/** What the thread is started with. */
export interface WatchdogSource {
  /** Goes up for as long as the main thread is free. */
  readonly beats: Int32Array;
  /** The folder of the run, whose `run.json` says in the end what happened; null where there is none. */
  readonly folder: string | null;
  /** The run has failed when one call has blocked for longer; null for no limit. */
  readonly limitMs: number | null;
}

interface WatchdogOptions extends Pick<WatchdogSource, "folder" | "limitMs"> {
  /** Told of a block that is over. */
  readonly report: (text: string) => void;
}

const BEAT_MS = 250;

/** Under this name the thread finds, in a main thread that is halted, the function that says where it is. */
export const WHERE = "reroll.where-now";

/** Starts the thread. Signals that the program listens for by now are heard, whatever the main thread does. */
export function startWatchdog({ folder, limitMs, report }: WatchdogOptions): { close(): Promise<void> } {
  // A person with a debugger halts the main thread on purpose.
  if (!isMainThread || debuggerUrl() !== undefined) return { close: async () => {} };
  loadSignals().watch();
  Reflect.set(globalThis, Symbol.for(WHERE), whereNow);
  const beats = new Int32Array(new SharedArrayBuffer(4));
  const beat = setInterval(() => Atomics.add(beats, 0, 1), BEAT_MS);
  beat.unref();
  const source: WatchdogSource = { beats, folder, limitMs };
  const worker = startWorker(new URL("watchdog-worker", import.meta.url), source);
  worker.unref();
  worker.on("message", report);
  worker.on("error", (cause) => report(`The watchdog of the main thread failed: ${cause.message}`));
  return {
    close: async () => {
      clearInterval(beat);
      await worker.terminate();
    },
  };
}
