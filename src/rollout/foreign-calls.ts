/**
 * Calls into code that is not ours, while they run and after: whatever such code throws outside of its call is traced back to it.
 *
 * An environment, reward or agent may throw in a timer, leave a promise rejected, or end the process. With the guard up, that is a failure
 * of the call it came from; where the call cannot be known it is reported, and the run goes on. Only errors of our own end it. Functions of
 * the language and the platform that such code replaces are put back before anybody else's code runs, and reported.
 */
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { RerollError } from "../errors/reroll-error.ts";
import { keepIntrinsics, LANGUAGE, PLATFORM } from "../workers/keep-intrinsics.ts";
import { watchFatal } from "../workers/watch-fatal.ts";

interface ForeignCall {
  readonly name: string;
  readonly fail: (cause: unknown) => void;
}

const calls = new AsyncLocalStorage<ForeignCall>();
/** Tracing makes every promise of the process a little slower, so only runs with foreign code in this thread pay for it. */
let isTracing = false;
/** The foreign call whose code ran last, in whose callbacks nothing is put back. */
let lastCall: ForeignCall | undefined;
/** Puts back what was replaced of the language, and says by whom. */
let putBack = (_name: string): void => {};

/** Runs `work`; what it or anything it starts throws later, outside of any promise that is waited for, goes to `fail`. */
export function inForeignCall<Result>(call: ForeignCall, work: () => Result): Result {
  if (!isTracing) return work();
  try {
    return calls.run(call, work);
  } finally {
    putBack(call.name);
  }
}

/** Called before every callback: where the last one was of a foreign call, and this one is not, what it replaced is put back. */
function leaveCall(): void {
  const call = calls.getStore();
  if (call === lastCall) return;
  const left = lastCall;
  lastCall = call;
  if (left !== undefined) putBack(left.name);
}

/** The call under way, and the line of foreign code that it is at, in words that begin a sentence. */
export function whereNow(): string {
  const frame = (new Error().stack ?? "").split("\n").find((line) => /^\s+at /.test(line) && isForeignFrame(line));
  const place = frame === undefined ? "" : ` (${frame.trim().replace("file://", "")})`;
  return `${calls.getStore()?.name ?? "Code of the run file"}${place}`;
}

interface ForeignGuard {
  /** Rejects with the first error that is our own. */
  readonly broken: Promise<never>;
  /** Puts back what was replaced of the language, so that what comes next can rely on it. */
  putBack(): void;
  /** Lets everything be as it was before. */
  release(): void;
}

/** A hostile timer throws a thousand times a second: this many errors are told, and the others counted. */
const MAX_REPORTS = 20;

/** Catches for the whole process what nobody else catches, and keeps it from being ended from inside. */
export function guardForeignCalls(report: (text: string) => void, hasForeignCode: boolean): ForeignGuard {
  isTracing = hasForeignCode;
  let reject: (cause: unknown) => void = () => {};
  const broken = new Promise<never>((_, fail) => {
    reject = fail;
  });
  broken.catch(() => {});
  let numErrors = 0;
  const tell = (text: string) => {
    numErrors++;
    if (numErrors <= MAX_REPORTS) report(text);
  };
  const onError = (cause: unknown) => {
    const call = calls.getStore();
    putBack(call?.name ?? "Code of the run file");
    if (call === undefined && isOurs(cause)) return reject(cause);
    tell(`${call?.name ?? "Code of the run file"} threw outside of its call: ${messageOf(cause)}`);
    call?.fail(cause);
  };
  const { exit } = process;
  process.exit = ((code) => {
    const call = calls.getStore();
    const error = new RerollError("FAILED", `process.exit(${code ?? ""}) was called, which would have ended the run.`);
    tell(`${call?.name ?? "Code of the run file"} failed: ${error.message}`);
    call?.fail(error);
    throw error;
  }) as typeof process.exit;
  process.on("uncaughtException", onError);
  process.on("unhandledRejection", onError);
  const listen = () => {
    if (!process.listeners("uncaughtException").includes(onError)) process.on("uncaughtException", onError);
    if (!isCapturing) process.setUncaughtExceptionCaptureCallback(null);
  };
  const isCapturing = process.hasUncaughtExceptionCaptureCallback();
  const fatal = watchFatal(() => {
    putBack(calls.getStore()?.name ?? "Code of the run file");
    listen();
  });
  const hook = createHook({ before: leaveCall });
  if (hasForeignCode) {
    const broke = () => reject(new RerollError("FAILED", "The language cannot be put back."));
    const intrinsics = keepIntrinsics([...LANGUAGE, ...PLATFORM], broke);
    putBack = (name) => {
      const replaced = intrinsics.restore();
      if (replaced !== null) tell(`${name} replaced ${replaced}, which everything here is made of. It was put back.`);
    };
    hook.enable();
  }
  return {
    broken,
    putBack: () => putBack("Code of the run file"),
    release: () => {
      hook.disable();
      fatal.release();
      lastCall = undefined;
      isTracing = false;
      putBack = () => {};
      process.exit = exit;
      process.off("uncaughtException", onError);
      process.off("unhandledRejection", onError);
      if (numErrors > MAX_REPORTS) report(`Code of others threw ${numErrors} times outside of its calls.`);
    },
  };
}

/** Where source maps are on, as for run files in TypeScript, frames of a checkout name the sources that it was compiled from. */
const OWN_FOLDERS = [new URL("../", import.meta.url), new URL("../../src/", import.meta.url)];

/** Whether the error was thrown by a file of ours. What an exit that was refused throws is not. */
function isOurs(cause: unknown): boolean {
  if (!(cause instanceof Error) || (cause instanceof RerollError && cause.code === "FAILED")) return false;
  const frame = (cause.stack ?? "").split("\n").find((line) => /^\s+at /.test(line) && !line.includes("node:"));
  return frame !== undefined && isOwnFrame(frame);
}

function isOwnFrame(frame: string): boolean {
  return OWN_FOLDERS.some(({ href, pathname }) => frame.includes(href) || frame.includes(pathname));
}

/** Code of Node and what a debugger runs are nobody's. */
function isForeignFrame(frame: string): boolean {
  return !isOwnFrame(frame) && !frame.includes("node:") && !/<anonymous>|^\s+at eval /.test(frame);
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
