/**
 * An object that lives in a worker, seen by its owner: the same methods, answered from there.
 *
 * The interface is declared once, as the type of the object. Adding a method means adding it to that type and to the class that implements
 * it in the worker; nothing in between knows the methods by name.
 */
import { setTimeout } from "node:timers/promises";
import type { RerollError } from "../errors/reroll-error.ts";
import { Peer, type PeerOptions } from "./peer.ts";
import type { Transport } from "./transport.ts";

/** The methods of an interface that are asked: those that return a promise. */
export type Asked<Host> = {
  readonly [Name in keyof Host as Host[Name] extends (...args: never[]) => Promise<unknown> ? Name : never]: Host[Name];
};

/** The methods of an interface that are told: those that return nothing. */
type Told<Host> = {
  readonly [Name in keyof Host as Host[Name] extends (...args: never[]) => Promise<unknown> ? never : Name]: Host[Name];
};

/** The time that a worker may take to free what it holds, the call under way included. */
const CLOSING_MS = 60_000;

/** The owner's side of an object in a worker. */
export class Remote<Host extends object> {
  readonly #peer: Peer;
  readonly #line: Transport;
  readonly #lost: (how: string) => RerollError;
  #closing: Promise<void> | null = null;
  /** Calls that are answered. `close` also ends the worker, as `Remote.close` does. */
  readonly ask: Asked<Host>;
  /** Calls that are not: they arrive in order with all others, and nobody learns how they went. */
  readonly tell: Told<Host>;

  /** @param options.lost makes the error that calls get when the worker is gone, from a verb that says how: "crashed: ..." */
  constructor(line: Transport, options: PeerOptions & Required<Pick<PeerOptions, "lost">>) {
    this.#line = line;
    this.#lost = options.lost;
    this.#peer = new Peer(this.#readable(line), {}, options);
    this.ask = methods((name, args) => (name === "close" ? this.close() : this.#peer.ask(name, args))) as Asked<Host>;
    this.tell = methods((name, args) => this.#peer.tell(name, args)) as Told<Host>;
  }

  /** Foreign code in a worker can post whatever it likes: what is no message ends the worker, and not its owner. */
  #readable(line: Transport): Transport {
    const receive = (listen: (message: unknown) => void) => (message: unknown) => {
      try {
        listen(message);
      } catch (cause) {
        void this.end(this.#lost(`sent what is no message: ${String(cause)}`));
      }
    };
    return { ...line, onMessage: (listen) => line.onMessage(receive(listen)) };
  }

  /** When the object is there. Rejects with the reason where it cannot be built; calls before that wait for it. */
  get ready(): Promise<void> {
    return this.#peer.ready;
  }

  /** Why it can be asked for nothing any more; null while it can. */
  get ended(): RerollError | null {
    return this.#peer.ended;
  }

  /** Lets the object free what it holds, with its own `close` where it has one, then ends the worker. Calls after it reject with `reason`. */
  close(reason: RerollError = this.#lost("was closed")): Promise<void> {
    this.#closing ??= this.ended === null ? this.#shutDown(reason) : Promise.resolve();
    return this.#closing;
  }

  async #shutDown(reason: RerollError): Promise<void> {
    const limit = new AbortController();
    try {
      await Promise.race([this.#peer.ask("close", []), setTimeout(CLOSING_MS, undefined, limit)]);
    } finally {
      limit.abort();
      await this.end(reason);
    }
  }

  /** Ends the worker at once, whatever it is doing. Calls under way reject with the reason. */
  async end(reason: RerollError): Promise<void> {
    this.#peer.end(reason);
    await this.#line.close();
  }
}

/** An object that has every method: each is the call of its name. */
function methods(call: (name: string, args: readonly unknown[]) => unknown): object {
  const known = new Map<string, (...args: unknown[]) => unknown>();
  return new Proxy(
    {},
    {
      get: (_, name) => {
        // Whoever awaits the object looks for `then`: it is no promise.
        if (typeof name === "symbol" || name === "then") return undefined;
        const method = known.get(name) ?? ((...args: unknown[]) => call(name, args));
        known.set(name, method);
        return method;
      },
    },
  );
}
