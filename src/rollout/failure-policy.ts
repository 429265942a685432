/**
 * Where failures of environments, engines and rewards become values.
 *
 * Code that is not ours may throw anything, hang, or answer too late. Every wait on it has a name and a time limit; what goes
 * wrong ends one trajectory with a reason, and nothing else. An abort from outside is not a failure.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { FailedStage } from "../flow/trajectory.ts";
import { describeValue } from "./describe-value.ts";

export type Attempt<Result> =
  | { readonly kind: "done"; readonly value: Result }
  | { readonly kind: "aborted" }
  | { readonly kind: "failed"; readonly stage: FailedStage; readonly error: RerollError };

export interface Wait extends NamedWork {
  readonly timeoutMs: number;
}

export interface NamedWork {
  readonly stage: FailedStage;
  /** Starts the message: `Env "sokoban" step`. */
  readonly name: string;
  readonly signal: AbortSignal;
}

/** Given as the reason where nobody is left to read it: without one every abort would make an error with a stack of its own. */
const OVER = new RerollError("ABORTED", "Nobody waits for this any more.");

/** Timers cannot wait longer, and would not wait at all if they were asked to. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Runs `work`, and gives up waiting for it after the time limit or when the signal says so; the work itself gets a signal. */
export async function attempt<Result>(
  { timeoutMs, ...wait }: Wait,
  work: (signal: AbortSignal) => Result | Promise<Result>,
): Promise<Attempt<Result>> {
  const { stage, name, signal } = wait;
  if (signal.aborted) return { kind: "aborted" };
  const stop = new AbortController();
  let giveUp: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  const gaveUp = new Promise<Attempt<Result>>((resolve) => {
    giveUp = () => resolve({ kind: "aborted" });
    signal.addEventListener("abort", giveUp, { once: true });
    const isTooLate = () => resolve({ kind: "failed", stage, error: tooLate(name, timeoutMs) });
    timer = setTimeout(isTooLate, Math.min(timeoutMs, MAX_TIMER_MS));
  });
  try {
    return await Promise.race([settled(wait, () => work(stop.signal)), gaveUp]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp!);
    stop.abort(OVER);
  }
}

/** Runs `work` to its end. What it throws is a failure, or an abort where the signal had asked for one. */
export async function settled<Result>(
  { stage, name, signal }: NamedWork,
  work: () => Result | Promise<Result>,
): Promise<Attempt<Result>> {
  try {
    return { kind: "done", value: await work() };
  } catch (cause) {
    return signal.aborted ? { kind: "aborted" } : { kind: "failed", stage, error: failed(name, cause) };
  }
}

function tooLate(name: string, timeoutMs: number): RerollError {
  return new RerollError("TIMEOUT", `${name} did not answer within ${timeoutMs} ms.`, { name, timeoutMs });
}

function failed(name: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : describeValue(cause);
  const code = cause instanceof RerollError ? cause.code : "FAILED";
  return new RerollError(code, `${name} failed: ${reason}`, { name }, { cause });
}
