/**
 * The server's side of environments on other machines: episodes by the name that their owner gives them.
 *
 * Everything may be asked twice. A call has a number, 0 for the opening; asked again, it is answered as before. An episode that nobody asks
 * anything of for `idleMs` is ended and forgotten: its owner is gone.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Clock } from "../../flow/clock.ts";
import type { Prompt } from "../../flow/prompt.ts";
import type { Shown } from "../env-host.ts";
import type { EnvStep, MakeEnv, Opening, Reply, TextEnv } from "../text-env.ts";

interface SessionsOptions {
  readonly makeEnv: MakeEnv;
  readonly idleMs: number;
  readonly clock: Clock;
}

interface Session {
  readonly made: Promise<TextEnv>;
  readonly stop: AbortController;
  number: number;
  last: Promise<Shown<Opening | EnvStep>> | null;
  numBusy: number;
  usedMs: number;
}

export class EnvSessions {
  readonly #options: SessionsOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #sweep: NodeJS.Timeout;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sweep = setInterval(() => void this.endIdle(), options.idleMs / 4).unref();
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Makes the episode, unless it is there already. */
  async open(id: string, prompt: Prompt, seed: number): Promise<void> {
    const known = this.#sessions.get(id);
    if (known !== undefined) return void (await known.made);
    const { makeEnv, clock } = this.#options;
    const made = Promise.resolve().then(() => makeEnv(prompt, seed));
    const session: Session = {
      ...{ made, stop: new AbortController(), number: -1, last: null, numBusy: 0, usedMs: clock() },
    };
    this.#sessions.set(id, session);
    try {
      await made;
    } catch (cause) {
      this.#sessions.delete(id);
      throw cause;
    }
  }

  /** What came of a call. The next one has the next number; the last one may be asked again. */
  async call(id: string, number: number, reply: Reply | null): Promise<Shown<Opening | EnvStep>> {
    const session = this.#find(id);
    if (number === session.number + 1) {
      session.number = number;
      session.last = this.#play(session, reply);
      session.last.catch(() => {});
    } else if (number !== session.number) {
      const message = `Call ${number} of an episode whose last one was ${session.number}. Calls come in order, and the last may be asked again.`;
      throw new RerollError("INVALID_REQUEST", message, { number });
    }
    return session.last!;
  }

  /** Ends the episode, if it is there. */
  async end(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    this.#sessions.delete(id);
    session.stop.abort();
    await session.last?.catch(() => {});
    await (await session.made).end?.();
  }

  /** Ends the episodes whose owners are gone. */
  async endIdle(): Promise<void> {
    const { clock, idleMs } = this.#options;
    const isIdle = ({ numBusy, usedMs }: Session) => numBusy === 0 && clock() - usedMs >= idleMs;
    const idle = [...this.#sessions].filter(([, session]) => isIdle(session));
    // One that cannot end has failed by itself; nobody is there to be told.
    await Promise.allSettled(idle.map(([id]) => this.end(id)));
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.allSettled([...this.#sessions.keys()].map((id) => this.end(id)));
  }

  async #play(session: Session, reply: Reply | null): Promise<Shown<Opening | EnvStep>> {
    session.numBusy++;
    try {
      const env = await session.made;
      const { signal } = session.stop;
      const answer = reply === null ? await env.start(signal) : await env.step(reply, signal);
      return { answer, picture: env.render?.() };
    } finally {
      session.numBusy--;
      session.usedMs = this.#options.clock();
    }
  }

  #find(id: string): Session {
    const session = this.#sessions.get(id);
    if (session !== undefined) {
      session.usedMs = this.#options.clock();
      return session;
    }
    const { idleMs } = this.#options;
    const message = `There is no session ${id} here: the server has started again, or nothing was asked of it for ${idleMs / 1000} seconds.`;
    throw new RerollError("ENV_SESSION_LOST", message, { id });
  }
}
