/**
 * Where failures of environments, engines and rewards become values.
 *
 * Code that is not ours may throw anything, hang, or answer too late. Every wait on it has a name and a time limit; what goes
 * wrong ends one trajectory with a reason, and nothing else. An abort from outside is not a failure.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { FailedStage } from "../flow/trajectory.ts";

export type Attempt<Result> =
  | { readonly kind: "done"; readonly value: Result }
  | { readonly kind: "aborted" }
  | { readonly kind: "failed"; readonly stage: FailedStage; readonly error: RerollError };

export interface Wait {
  readonly stage: FailedStage;
  /** Starts the message: `Env "sokoban" step`. */
  readonly name: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Runs `work`, and gives up waiting for it after the time limit or when the signal says so; the work itself gets a signal. */
export async function attempt<Result>(
  { stage, name, timeoutMs, signal }: Wait,
  work: (signal: AbortSignal) => Result | Promise<Result>,
): Promise<Attempt<Result>> {
  if (signal.aborted) return { kind: "aborted" };
  const stop = new AbortController();
  let giveUp: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  const gaveUp = new Promise<Attempt<Result>>((resolve) => {
    giveUp = () => resolve({ kind: "aborted" });
    signal.addEventListener("abort", giveUp, { once: true });
    timer = setTimeout(() => resolve({ kind: "failed", stage, error: tooLate(name, timeoutMs) }), timeoutMs);
  });
  try {
    const done = Promise.resolve(work(stop.signal)).then((value): Attempt<Result> => ({ kind: "done", value }));
    // What comes after giving up is nobody's business, but must not end the process.
    done.catch(() => {});
    return await Promise.race([done, gaveUp]);
  } catch (cause) {
    return signal.aborted ? { kind: "aborted" } : { kind: "failed", stage, error: failed(name, cause) };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp!);
    stop.abort();
  }
}

function tooLate(name: string, timeoutMs: number): RerollError {
  return new RerollError("TIMEOUT", `${name} did not answer within ${timeoutMs} ms.`, { name, timeoutMs });
}

function failed(name: string, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const code = cause instanceof RerollError ? cause.code : "FAILED";
  return new RerollError(code, `${name} failed: ${reason}`, { name }, { cause });
}
