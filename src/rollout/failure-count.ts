/**
 * When to give up on a run whose samples fail: after many failures in a row, or after a handful where failing is certain.
 *
 * It is certain while not one sample has ended well, the same error has ended most of them, and most of the prompts that were started:
 * a few rows that no agent can answer fail fast too, and prove nothing.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Trajectory } from "../flow/trajectory.ts";

/** Failures in a row, of whatever kind, without a single sample that ended well. */
const MAX_IN_A_ROW = 256;
/** Failures alike, before the first sample that ended well, that are no accident. */
const CERTAIN = 8;

export class FailureCount {
  #inARow = 0;
  /** How often each error came, and in which groups; null once a sample has ended well. */
  #alike: Map<string, { count: number; readonly groups: Set<string> }> | null = new Map();
  #numInAll = 0;

  /** A sample ended well. */
  reset(): void {
    this.#inARow = 0;
    this.#alike = null;
  }

  /** Counts from the start again, for a rollout that goes on after it was told. */
  restart(): void {
    this.#inARow = 0;
    this.#alike?.clear();
    this.#numInAll = 0;
  }

  /**
   * Counts a failure. Returns the error to end the rollout with, or null while there is hope.
   *
   * @param numStarted groups of which a sample has been started
   */
  add({ groupId, end }: Trajectory, numStarted: number): RerollError | null {
    if (end.kind !== "failed") return null;
    const { error, stage } = end;
    // The engine belongs to another run now: it gives this one no sample any more.
    if (error.code === "REMOTE_TAKEN") return error;
    if (++this.#inARow >= MAX_IN_A_ROW)
      return hopeless(`The last ${this.#inARow} samples all failed`, this.#inARow, error);
    if (this.#alike === null || stage === "generation") return null;
    this.#numInAll++;
    const key = `${error.code} ${error.message.replace(VARYING, "#")}`;
    const known = this.#alike.get(key) ?? { count: 0, groups: new Set() };
    this.#alike.set(key, known);
    known.groups.add(groupId);
    known.count++;
    const isMost = 2 * known.count > this.#numInAll && known.groups.size > 1 && 2 * known.groups.size >= numStarted;
    if (known.count < CERTAIN || !isMost) return null;
    return hopeless(`The first ${known.count} samples failed alike`, known.count, error);
  }
}

/** What differs between messages that say the same: numbers, and names that are made up for each sample. */
const VARYING = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d+/g;

function hopeless(what: string, count: number, error: RerollError): RerollError {
  const remedy =
    error.code === "ENGINE_BROKEN"
      ? "See why engines are lost, and resume the run."
      : "Nothing can be learned from this; correct the agent, environment or reward of the run file.";
  return new RerollError(
    "ROLLOUT_FAILING",
    `${what}, the last one with: ${error.message.replace(/[.]?$/, ".")} ${remedy}`,
    { count },
    { cause: error },
  );
}
