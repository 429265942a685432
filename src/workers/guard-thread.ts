/**
 * Keeps a thread of foreign code alive: what it throws in a timer or leaves rejected fails the call it came from, and it cannot end itself.
 *
 * Such errors are also written to standard error, which the thread shares with its process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { RerollError } from "../errors/reroll-error.ts";

/** A hostile timer throws a thousand times a second: this many errors are told. */
const MAX_REPORTS = 20;

/** Runs a call of foreign code. Rejects with what it throws, in the call or beside it. */
type GuardedCall = <Result>(work: () => Result | Promise<Result>) => Promise<Result>;

/** For the life of the thread. */
export function guardThread(): GuardedCall {
  const calls = new AsyncLocalStorage<(cause: unknown) => void>();
  let numErrors = 0;
  const onError = (cause: unknown) => {
    calls.getStore()?.(cause);
    numErrors++;
    const message = cause instanceof Error ? cause.message : String(cause);
    if (numErrors > MAX_REPORTS) return;
    process.stderr.write(`Code of the run file threw outside of its calls: ${message}\n`);
  };
  process.on("uncaughtException", onError);
  process.on("unhandledRejection", onError);
  process.exit = ((code) => {
    throw new RerollError("FAILED", `process.exit(${code ?? ""}) was called, which would have ended the thread.`);
  }) as typeof process.exit;
  return (work) =>
    new Promise((resolve, reject) => {
      calls.run(reject, async () => work()).then(resolve, reject);
    });
}
