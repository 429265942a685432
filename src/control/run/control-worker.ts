/** The thread of a control run: everything that computes, behind messages. */

import { once } from "node:events";
import { parentPort, workerData } from "node:worker_threads";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { runClock } from "../../tracking/run-clock.ts";
import { type RunTracker, silentTracker } from "../../tracking/run-tracker.ts";
import type { ControlThreadData, FromControlThread } from "./control-messages.ts";
import { readControlFile } from "./prepare-control.ts";
import { trainControl } from "./train-control.ts";

const port = parentPort;
invariant(port !== null, "control-worker runs in a worker thread");
const { runFile, sets, environment, folder, isResumed, stop } = workerData as ControlThreadData;
const isAsked = new Int32Array(stop);
const stopping = new AbortController();

function post(message: FromControlThread): void {
  port?.postMessage(message);
}

const tracker: RunTracker = {
  ...silentTracker,
  note: (text) => post({ kind: "note", text }),
  log: (step, of, metrics) => {
    post({ kind: "log", step, of, metrics });
    if (Atomics.load(isAsked, 0) === 1) stopping.abort();
  },
  span: async (stage, work) => {
    post({ kind: "begin", stage });
    try {
      return await work();
    } finally {
      post({ kind: "end", stage });
    }
  },
  flush: async () => {
    const flushed = once(port, "message");
    post({ kind: "flush" });
    await flushed;
  },
};

try {
  const { config } = await readControlFile(runFile, sets, environment);
  const result = await trainControl(config, { folder, tracker, signal: stopping.signal, isResumed }, runClock);
  post({ kind: "done", result });
} catch (cause) {
  post({ kind: "failed", ...describe(cause) });
}

/** A RerollError says all there is to say; of anything else the stack helps to find it. */
function describe(cause: unknown): { readonly code: ErrorCode; readonly message: string } {
  if (cause instanceof RerollError) return { code: cause.code, message: cause.message };
  return { code: "INTERNAL", message: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause) };
}
