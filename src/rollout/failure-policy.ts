/**
 * Where failures of environments, engines and rewards become values.
 *
 * Code that is not ours may throw anything, hang, or answer too late. Every wait on it has a name and a time limit; what goes
 * wrong ends one trajectory with a reason, and nothing else. An abort from outside is not a failure.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { FailedStage } from "../flow/trajectory.ts";
import { describeValue } from "./describe-value.ts";
import { inForeignCall } from "./foreign-calls.ts";

export type Attempt<Result> =
  | { readonly kind: "done"; readonly value: Result }
  | { readonly kind: "aborted" }
  | { readonly kind: "failed"; readonly stage: FailedStage; readonly error: RerollError };

export interface Wait extends NamedWork {
  readonly timeoutMs: number;
  /**
   * Gives the work its signal. It is aborted when the wait is given up, or by its owner once everything that shares it
   * is over.
   */
  readonly stop: AbortController;
}

interface NamedWork {
  readonly stage: FailedStage;
  /** The start of an error message, such as `Env "sokoban" step`. */
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * The reason of an abort that nobody is left to read. Without one, every abort would create an error with its own
 * stack.
 */
export const OVER = new RerollError("ABORTED", "Nobody waits for this any more.");

/** What the work of an episode threw outside of its calls, by the signal that all its calls share. */
const faults = new WeakMap<AbortController, unknown>();

/** The longest delay of a timer. Asked to wait longer, it would not wait at all. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Runs `work` and checks its answer; gives up waiting for it after the time limit or when the signal says so. Work that
 * answers at once costs no timer and no listener: most environments do.
 */
export function attempt<Result>(
  wait: Wait,
  work: (signal: AbortSignal) => Result | PromiseLike<Result>,
  check = (answer: Result) => answer,
): Attempt<Result> | Promise<Attempt<Result>> {
  const { name, signal, stop } = wait;
  if (signal.aborted) return { kind: "aborted" };
  // Something that an earlier call of the same episode has started threw in the meantime.
  if (faults.has(stop)) return failure(wait, faults.get(stop));
  const call = { name, fail: (cause: unknown) => void faults.set(stop, cause) };
  try {
    const answer = inForeignCall(call, () => work(stop.signal));
    return isPending(answer) ? inTime(wait, call, answer, check) : { kind: "done", value: check(answer) };
  } catch (cause) {
    return failure(wait, cause);
  }
}

/** What `attempt` does with an answer that is on its way. While it waits, what the call throws elsewhere ends the wait. */
function inTime<Result>(
  wait: Wait,
  call: { fail: (cause: unknown) => void },
  answer: PromiseLike<Result>,
  check: (answer: Result) => Result,
): Promise<Attempt<Result>> {
  const { stage, name, signal, timeoutMs, stop } = wait;
  const { fail } = call;
  return new Promise((resolve) => {
    const end = (outcome: Attempt<Result>) => {
      call.fail = fail;
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      resolve(outcome);
    };
    const giveUp = (outcome: Attempt<Result>) => {
      end(outcome);
      stop.abort(OVER);
    };
    const abort = () => giveUp({ kind: "aborted" });
    const isTooLate = () => giveUp({ kind: "failed", stage, error: tooLate(name, timeoutMs) });
    call.fail = (cause) => giveUp({ kind: "failed", stage, error: failed(name, cause) });
    const timer = setTimeout(isTooLate, Math.min(timeoutMs, MAX_TIMER_MS));
    signal.addEventListener("abort", abort, { once: true });
    void settleAnswer(wait, answer, check).then(end);
  });
}

async function settleAnswer<Result>(
  wait: NamedWork,
  answer: PromiseLike<Result>,
  check: (answer: Result) => Result,
): Promise<Attempt<Result>> {
  try {
    return { kind: "done", value: check(await answer) };
  } catch (cause) {
    return failure(wait, cause);
  }
}

/** Runs `work` to its end. What it throws is a failure, or an abort where the signal had asked for one. */
export async function settled<Result>(wait: NamedWork, work: () => Result | Promise<Result>): Promise<Attempt<Result>> {
  try {
    return { kind: "done", value: await work() };
  } catch (cause) {
    return failure(wait, cause);
  }
}

/** How work ended that threw: a failure, or an abort where the signal had asked for one. */
export function failure({ stage, name, signal }: NamedWork, cause: unknown): Exclude<Attempt<never>, { kind: "done" }> {
  return signal.aborted ? { kind: "aborted" } : { kind: "failed", stage, error: failed(name, cause) };
}

function isPending<Result>(answer: Result | PromiseLike<Result>): answer is PromiseLike<Result> {
  return typeof (answer as PromiseLike<Result> | null | undefined)?.then === "function";
}

function tooLate(name: string, timeoutMs: number): RerollError {
  return new RerollError("TIMEOUT", `${name} did not answer within ${timeoutMs} ms.`, { name, timeoutMs });
}

function failed(name: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : describeValue(cause);
  const code = cause instanceof RerollError ? cause.code : "FAILED";
  return new RerollError(code, `${name} failed: ${reason}`, { name }, { cause });
}
