/**
 * The episodes that agents run against the server.
 *
 * In: calls under a session's name, its reward, or silence for too long. Out: ended episodes for the trainer.
 * Both the open and the ended ones are bounded: a new session beyond the limit is refused, and of ended ones that nobody
 * takes the oldest is dropped and counted.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { Counter } from "./metrics.ts";
import { Session } from "./session.ts";
import type { FinishedSession, SessionEnd } from "./session-record.ts";

export interface SessionLimits {
  /** Default 4096. */
  readonly maxOpen?: number;
  /** Ended sessions that wait for the trainer. Default 4096. */
  readonly maxFinished?: number;
  /** A session without a call for this long ends without a reward. Default 15 minutes. */
  readonly idleTimeoutMs?: number;
  /** Default 1024. */
  readonly maxTurns?: number;
  /**
   * Tokens of all sessions together, which take some 16 bytes each. Beyond them ended sessions are dropped, oldest first;
   * where the open ones alone have more, a new one is refused. Default 50 million.
   */
  readonly maxTokens?: number;
}

export class Sessions {
  readonly ended = new Counter(
    "reroll_sessions_ended_total",
    "Sessions by how they ended: rewarded, timed-out, deleted.",
  );
  readonly dropped = new Counter(
    "reroll_sessions_dropped_total",
    "Ended sessions that were dropped because nobody took them.",
  );
  readonly #open = new Map<string, Session>();
  /** In the order they ended. */
  readonly #finished = new Map<string, FinishedSession & { readonly numTokens: number }>();
  /** Names that `take` was called with, the latest ones. */
  readonly #taken = new Set<string>();
  readonly #limits: Required<SessionLimits>;
  readonly #clock: () => number;
  #waiters: (() => void)[] = [];

  /** @param clock milliseconds */
  constructor(clock: () => number, limits: SessionLimits = {}) {
    this.#clock = clock;
    this.#limits = {
      ...{ maxOpen: 4096, maxFinished: 4096, idleTimeoutMs: 15 * 60_000, maxTurns: 1024, maxTokens: 50_000_000 },
      ...limits,
    };
  }

  /** The time that turns are stamped with. */
  get nowMs(): number {
    return this.#clock();
  }

  get numOpen(): number {
    return this.#open.size;
  }

  get numFinished(): number {
    return this.#finished.size;
  }

  /** The open session of this name, new if there is none. Throws when it has ended, or when too many are open. */
  open(id: string): Session {
    const known = this.#open.get(id);
    if (known !== undefined) return known;
    if (!SESSION_ID.test(id)) throw badId(id);
    if (this.#finished.has(id) || this.#taken.has(id)) throw sessionEnded(id);
    if (this.#open.size >= this.#limits.maxOpen) throw sessionsFull(`${this.#limits.maxOpen} sessions are open`);
    if (tokensIn(this.#open) >= this.#limits.maxTokens) {
      throw sessionsFull(`The open sessions hold ${this.#limits.maxTokens} tokens`);
    }
    const session = new Session(id, this.#limits.maxTurns, this.#clock());
    this.#open.set(id, session);
    return session;
  }

  /** The session's record so far, and its end if it has one. Throws when the name is unknown. */
  read(id: string): { readonly session: Session } | { readonly finished: FinishedSession } {
    const session = this.#open.get(id);
    if (session !== undefined) return { session };
    const finished = this.#finished.get(id);
    if (finished !== undefined) return { finished };
    throw new RerollError(
      "SESSION_UNKNOWN",
      `Session ${id} is not known. It starts with the first call under its name, and is gone once the trainer has taken it.`,
      { param: "id" },
    );
  }

  /** Ends a session. Calls that are still running are not recorded any more. */
  end(id: string, end: SessionEnd): FinishedSession {
    const found = this.read(id);
    if ("finished" in found) throw sessionEnded(id);
    const finished = { ...found.session.record(), end };
    this.#open.delete(id);
    this.#finished.set(id, { ...finished, numTokens: found.session.numTokens });
    this.ended.add(1, { end: end.kind });
    this.#dropOldest();
    for (const wake of this.#waiters.splice(0)) wake();
    return finished;
  }

  /** Hands the ended sessions over, oldest first; they are then forgotten here. */
  takeFinished(max = Infinity): FinishedSession[] {
    const taken = [...this.#finished.values()].slice(0, max).map(({ numTokens: _, ...finished }) => finished);
    for (const { id } of taken) this.#finished.delete(id);
    return taken;
  }

  /**
   * Hands one session over, ended or not, and forgets it; undefined where it has made no call. Later calls under its
   * name are refused: an agent that was given up on must not start it anew.
   */
  take(id: string): FinishedSession | undefined {
    this.#taken.add(id);
    if (this.#taken.size > MAX_TAKEN) this.#taken.delete(this.#taken.values().next().value!);
    const open = this.#open.get(id);
    if (open !== undefined) {
      this.#open.delete(id);
      this.ended.add(1, { end: "deleted" });
      return { ...open.record(), end: { kind: "deleted" } };
    }
    const found = this.#finished.get(id);
    if (found === undefined) return undefined;
    this.#finished.delete(id);
    const { numTokens: _, ...finished } = found;
    return finished;
  }

  /** Resolves when there is something to take, or when the signal says to stop waiting. */
  async waitForFinished(signal?: AbortSignal): Promise<void> {
    if (this.#finished.size > 0 || signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal?.removeEventListener("abort", wake);
        this.#waiters = this.#waiters.filter((waiter) => waiter !== wake);
        resolve();
      };
      this.#waiters.push(wake);
      signal?.addEventListener("abort", wake);
    });
  }

  /** Ends the sessions that were silent for too long. */
  endIdle(): void {
    const oldest = this.#clock() - this.#limits.idleTimeoutMs;
    const idle = [...this.#open.values()].filter(
      ({ lastUsedMs, numCallsRunning }) => numCallsRunning === 0 && lastUsedMs < oldest,
    );
    for (const { id } of idle) this.end(id, { kind: "timed-out" });
  }

  #dropOldest(): void {
    const { maxFinished, maxTokens } = this.#limits;
    let numTokens = tokensIn(this.#open) + tokensIn(this.#finished);
    for (const [id, oldest] of this.#finished) {
      if (this.#finished.size <= maxFinished && numTokens <= maxTokens) return;
      this.#finished.delete(id);
      this.dropped.add();
      numTokens -= oldest.numTokens;
    }
  }
}

/** More than agents that run at once, and little memory. */
const MAX_TAKEN = 65_536;

const SESSION_ID = /^[A-Za-z0-9._:-]{1,128}$/;

function badId(id: string): RerollError {
  return new RerollError(
    "INVALID_REQUEST",
    `x-reroll-session must be 1 to 128 letters, digits or . _ : -: got ${JSON.stringify(id.slice(0, 200))}.`,
    { param: "x-reroll-session" },
  );
}

function sessionEnded(id: string): RerollError {
  return new RerollError("SESSION_ENDED", `Session ${id} has ended. Start another one under a new name.`, {
    param: "x-reroll-session",
  });
}

function tokensIn(sessions: ReadonlyMap<string, { readonly numTokens: number }>): number {
  let sum = 0;
  for (const { numTokens } of sessions.values()) sum += numTokens;
  return sum;
}

function sessionsFull(why: string): RerollError {
  return new RerollError(
    "SESSIONS_FULL",
    `${why}, and no more are allowed. Post the rewards of those that are over, or wait for them to time out.`,
    { param: "x-reroll-session" },
  );
}
