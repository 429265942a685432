/**
 * Keeps a thread of foreign code alive: what it throws in a timer or leaves rejected fails the call it came from, and it cannot end itself.
 *
 * Errors that come outside of any call are told to the thread's owner. The call whose code runs right now is marked in memory that the
 * owner shares, so that it knows which one a thread was lost in.
 */
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { workerData } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";

/** A hostile timer throws a thousand times a second: this many errors are told. */
const MAX_REPORTS = 20;

/** What the owner of a guarded thread adds to the data that it starts with. */
export interface GuardedSource {
  /** Holds the number of the call whose code runs now; 0 for none. */
  readonly running: Int32Array;
}

interface ThreadGuard {
  /** Runs a call of foreign code under a number above 0. Rejects with what it throws, in the call or beside it. */
  call<Result>(number: number, work: () => Result | Promise<Result>): Promise<Result>;
  /** Tells `report` what is thrown outside of calls, for the life of the thread; the promise never settles. */
  listen(report: (message: string) => void): Promise<never>;
}

/** For the life of the thread. */
export function guardThread(): ThreadGuard {
  const { running } = workerData as GuardedSource;
  const calls = new AsyncLocalStorage<{ readonly number: number; readonly fail: (cause: unknown) => void }>();
  const unheard: string[] = [];
  let tell = (message: string): void => void unheard.push(message);
  let numErrors = 0;
  const onError = (cause: unknown) => {
    calls.getStore()?.fail(cause);
    numErrors++;
    if (numErrors <= MAX_REPORTS) tell(cause instanceof Error ? cause.message : String(cause));
  };
  process.on("uncaughtException", onError);
  process.on("unhandledRejection", onError);
  process.exit = ((code) => {
    throw new RerollError("FAILED", `process.exit(${code ?? ""}) was called, which would have ended the thread.`);
  }) as typeof process.exit;
  createHook({
    before: () => {
      running[0] = calls.getStore()?.number ?? 0;
    },
  }).enable();
  return {
    call: (number, work) =>
      new Promise((resolve, reject) => {
        running[0] = number;
        calls.run({ number, fail: reject }, async () => work()).then(resolve, reject);
        running[0] = 0;
      }),
    listen: (report) => {
      tell = report;
      for (const message of unheard.splice(0)) report(message);
      return new Promise(() => {});
    },
  };
}
