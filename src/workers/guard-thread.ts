/**
 * Keeps a thread of foreign code alive: what it throws in a timer or leaves rejected fails the call it came from, it cannot end itself, and
 * what it replaces of the language is put back.
 *
 * Errors that come outside of any call are told to the thread's owner. The call whose code runs right now is marked in memory that the
 * owner shares, so that it knows which one a thread was lost in.
 */
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { workerData } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";
import { keepIntrinsics, LANGUAGE } from "./keep-intrinsics.ts";
import type { Transport } from "./transport.ts";
import { watchFatal } from "./watch-fatal.ts";

/** A hostile timer throws a thousand times a second: this many errors are told. */
const MAX_REPORTS = 20;

/** What the owner of a guarded thread adds to the data that it starts with. */
export interface GuardedSource {
  /** Holds the number of the call whose code runs now; 0 for none. */
  readonly running: Int32Array;
}

interface ThreadGuard {
  /** Imports a module of foreign code. */
  load(module: string): Promise<Readonly<Record<string, unknown>>>;
  /** Runs a call of foreign code under a number above 0. Rejects with what it throws, in the call or beside it. */
  call<Result>(number: number, work: () => Result | Promise<Result>): Promise<Result>;
  /** The thread's line to its owner, which works whatever foreign code has replaced. */
  readonly wrap: (line: Transport) => Transport;
  /** Tells `report` what foreign code did outside of calls, for the life of the thread; the promise never settles. */
  listen(report: (message: string) => void): Promise<never>;
}

/** For the life of the thread. */
export function guardThread(): ThreadGuard {
  const { running } = workerData as GuardedSource;
  const calls = new AsyncLocalStorage<{ readonly number: number; readonly fail: (cause: unknown) => void }>();
  const unheard: string[] = [];
  let tell = (message: string): void => void unheard.push(message);
  let numErrors = 0;
  let numReplaced = 0;
  // The thread's owner gives the episodes that it loses this way to another one, all but the one that is to blame.
  const { exit } = process;
  const intrinsics = keepIntrinsics(LANGUAGE, () => exit(1));
  const restore = () => {
    const replaced = intrinsics.restore();
    if (replaced === null || ++numReplaced > MAX_REPORTS) return;
    tell(`replaced ${replaced}, which everything in its thread is made of. It was put back.`);
  };
  const onError = (cause: unknown) => {
    restore();
    calls.getStore()?.fail(cause);
    numErrors++;
    if (numErrors <= MAX_REPORTS) tell(`threw outside of its calls: ${messageOf(cause)}`);
  };
  process.on("uncaughtException", onError);
  process.on("unhandledRejection", onError);
  // Node ends a thread through `process.exit` where handlers of errors throw, and one that throws there would end the whole process.
  const fatal = watchFatal(restore);
  process.exit = ((code) => {
    if (fatal.isHandling()) exit(code);
    throw new RerollError("FAILED", `process.exit(${code ?? ""}) was called, which would have ended the thread.`);
  }) as typeof process.exit;
  createHook({
    before: () => {
      const number = calls.getStore()?.number ?? 0;
      if (number !== running[0] && running[0] !== 0) restore();
      running[0] = number;
    },
  }).enable();
  return {
    load: async (module) => {
      try {
        return await import(module);
      } finally {
        restore();
      }
    },
    call: (number, work) =>
      new Promise((resolve, reject) => {
        running[0] = number;
        const result = calls.run({ number, fail: reject }, async () => work());
        restore();
        running[0] = 0;
        result.finally(restore).then(resolve, reject);
      }),
    wrap: (line) => ({
      ...line,
      post: (message, moved) => {
        restore();
        line.post(message, moved);
      },
      onMessage: (listen) =>
        line.onMessage((message) => {
          restore();
          listen(message);
        }),
    }),
    listen: (report) => {
      tell = report;
      for (const message of unheard.splice(0)) report(message);
      return new Promise(() => {});
    },
  };
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
