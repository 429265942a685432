/**
 * One end of a line over which calls are made, in both directions.
 *
 * A call has a number; its answer carries the same one. What it is called with crosses as plain data, except that a function becomes
 * a function that calls back, a signal becomes a signal that aborts along, an error arrives as a RerollError, and a tensor keeps its memory.
 * When the line ends, everything that waits for an answer rejects.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { type ErrorMessage, packError, unpackError } from "./error-message.ts";
import { type Carrier, discardItems, type Item, openItem, packLuggage, unpackLuggage } from "./luggage.ts";
import type { Transport } from "./transport.ts";

/** What crosses the line. `to` is a method of the host, or the number of a lent function; a "tell" is a call without an answer. */
type Message =
  | { readonly kind: "ready" }
  | { readonly kind: "broken"; readonly error: ErrorMessage }
  | ({ readonly kind: "ask"; readonly id: number } & Call)
  | ({ readonly kind: "tell" } & Call)
  | { readonly kind: "done"; readonly id: number; readonly result: unknown; readonly items?: readonly Item[] }
  | { readonly kind: "failed"; readonly id: number; readonly error: ErrorMessage }
  | { readonly kind: "abort"; readonly signal: number };

interface Call {
  readonly to: string | number;
  readonly args: unknown;
  /** Absent where there are none. */
  readonly items?: readonly Item[];
}

type AnyFunction = (...args: never[]) => unknown;

/** What a call left behind on the side that made it, until it is answered. */
interface Loan {
  readonly functions: number[];
  readonly stopListening: (() => void)[];
  items: readonly Item[];
}

interface Waiting extends Loan {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface LentFunction {
  readonly call: AnyFunction;
  /** The call that it was lent to. */
  readonly id: number;
}

/** How a peer treats what structured clone cannot carry, and how it calls its own end. */
export interface PeerOptions {
  readonly carrier?: Carrier;
  /** The error of calls on a line that has ended; `how` is a verb with what belongs to it. */
  readonly lost?: (how: string) => RerollError;
}

/** An end of a line. With a host it answers calls of the host's methods; without, only of the functions it has lent. */
export class Peer {
  readonly #line: Transport;
  readonly #carrier: Carrier | undefined;
  readonly #host: object;
  readonly #waiting = new Map<number, Waiting>();
  readonly #functions = new Map<number, LentFunction>();
  /** Copies of the other side's signals. */
  readonly #signals = new Map<number, AbortController>();
  #nextNumber = 1;
  #end: RerollError | null = null;
  #begin: { readonly resolve: () => void; readonly reject: (error: RerollError) => void };
  /** When the other side has said that its host is there. Rejects with the reason why it never will be. */
  readonly ready: Promise<void>;

  constructor(line: Transport, host: object = {}, { carrier, lost = lostWorker }: PeerOptions = {}) {
    this.#line = line;
    this.#host = host;
    this.#carrier = carrier;
    const { promise, ...begin } = withResolvers();
    this.ready = promise;
    this.#begin = begin;
    // Whoever calls is told; nobody may be waiting for the start itself.
    promise.catch(() => {});
    line.onEnd((how) => this.end(lost(how)));
    line.onMessage((message) => this.#receive(message as Message));
  }

  /** Tells the other side that there will be nobody to answer, and why. */
  static refuse(line: Transport, error: unknown): void {
    line.post({ kind: "broken", error: packError(error) } satisfies Message);
  }

  /** Why nothing can be asked any more; null while it can. */
  get ended(): RerollError | null {
    return this.#end;
  }

  /** Tells the other side that calls are answered from here on. */
  announce(): void {
    this.#send({ kind: "ready" });
  }

  /** Calls a method of the other side's host, or a function that it lent. Rejects with what that throws. */
  ask(to: string | number, args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#end !== null) throw this.#end;
      const id = this.#nextNumber++;
      const waiting = { resolve, reject, functions: [], stopListening: [], items: [] };
      this.#waiting.set(id, waiting);
      try {
        this.#post(id, to, args, waiting);
      } catch (error) {
        this.#settle(id);
        discardItems(waiting.items, this.#carrier);
        throw error;
      }
    });
  }

  /** The same without an answer. Nothing is told on a line that has ended. Takes no functions and no signals. */
  tell(to: string | number, args: readonly unknown[]): void {
    if (this.#end !== null) return;
    const { value, items, moved } = packLuggage(args, this.#carrier, NOTHING_IS_LENT);
    this.#send({ kind: "tell", to, args: value, ...(items.length > 0 && { items }) }, moved);
  }

  /** Ends the line from this side: what waits rejects with the reason, and so does everything that is asked after it. */
  end(reason: RerollError): void {
    if (this.#end !== null) return;
    this.#end = reason;
    this.#begin.reject(reason);
    for (const id of [...this.#waiting.keys()]) {
      const waiting = this.#settle(id)!;
      discardItems(waiting.items, this.#carrier);
      waiting.reject(reason);
    }
    for (const controller of this.#signals.values()) controller.abort();
    this.#signals.clear();
  }

  #post(id: number, to: string | number, args: readonly unknown[], loan: Loan): void {
    const { value, items, moved } = packLuggage(args, this.#carrier, {
      lendFunction: (call) => {
        const number = this.#nextNumber++;
        this.#functions.set(number, { call, id });
        loan.functions.push(number);
        return number;
      },
      lendSignal: (signal) => {
        const number = this.#nextNumber++;
        const abort = () => this.#send({ kind: "abort", signal: number });
        signal.addEventListener("abort", abort, { once: true });
        loan.stopListening.push(() => signal.removeEventListener("abort", abort));
        return number;
      },
    });
    loan.items = items;
    this.#send({ kind: "ask", id, to, args: value, ...(items.length > 0 && { items }) }, moved);
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    for (const number of waiting?.functions ?? []) this.#functions.delete(number);
    for (const stop of waiting?.stopListening ?? []) stop();
    return waiting;
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case "ready":
        this.#begin.resolve();
        break;
      case "broken":
        this.end(unpackError(message.error));
        break;
      case "ask":
        void this.#answer(message.id, message);
        break;
      case "tell":
        this.#hear(message);
        break;
      case "done":
        this.#finish(message);
        break;
      case "failed":
        this.#settle(message.id)?.reject(unpackError(message.error));
        break;
      case "abort":
        this.#signals.get(message.signal)?.abort();
        break;
    }
  }

  #finish({ id, result, items = [] }: Extract<Message, { kind: "done" }>): void {
    const waiting = this.#settle(id);
    if (waiting === undefined) discardItems(items, this.#carrier);
    else waiting.resolve(unpackLuggage(result, items, (item) => openItem(item, this.#carrier)));
  }

  async #answer(id: number, { to, args, items }: Call): Promise<void> {
    const opened: (() => void)[] = [];
    try {
      const result = await this.#find(to)(...this.#unpack(args, items, opened));
      const { value, items: given, moved, loaded } = packLuggage(result, this.#carrier);
      // Before the answer: whoever gets it may count on everything of the call being freed, and of the result on being its only owner.
      close(opened);
      for (const one of loaded) this.#carrier?.free(one);
      // Inside, since a result that cannot be cloned is a failure of the call too.
      this.#send({ kind: "done", id, result: value, ...(given.length > 0 && { items: given }) }, moved);
    } catch (error) {
      close(opened);
      this.#send({ kind: "failed", id, error: packError(error) });
    }
  }

  /** Without a promise of its own where there is none: tokens of a reply come this way, one by one. */
  #hear({ to, args, items }: Call): void {
    const opened: (() => void)[] = [];
    try {
      const result = this.#find(to)(...this.#unpack(args, items, opened));
      if (result instanceof Promise)
        result.catch((error: unknown) => this.#failCaller(to, error)).finally(() => close(opened));
      else close(opened);
    } catch (error) {
      close(opened);
      this.#failCaller(to, error);
    }
  }

  #unpack(args: unknown, items: readonly Item[] | undefined, opened: (() => void)[]): never[] {
    if (items === undefined) return args as never[];
    return unpackLuggage(args, items, (item) => this.#open(item, opened)) as never[];
  }

  #send(message: Message, moved?: readonly ArrayBuffer[]): void {
    this.#line.post(message, moved);
  }

  /** What is called. A host need not have a `close`; anything else must be a method of its own, and not of every object. */
  #find(to: string | number): AnyFunction {
    if (typeof to === "number") {
      const lent = this.#functions.get(to);
      // The call that it was lent to has ended: what is still said about it interests nobody.
      return lent?.call ?? (() => undefined);
    }
    const method: unknown = to in Object.prototype ? undefined : Reflect.get(this.#host, to);
    if (method === undefined && to === "close") return () => undefined;
    if (typeof method !== "function")
      throw new RerollError("INTERNAL", `internal: the worker has no method ${JSON.stringify(to)}`);
    return (...args) => method.apply(this.#host, args);
  }

  /** What nobody waits for has thrown: a callback fails the call that it was lent to, and a method has no one else to tell. */
  #failCaller(to: string | number, error: unknown): void {
    if (typeof to === "string") throw error;
    const lent = this.#functions.get(to);
    if (lent !== undefined) this.#settle(lent.id)?.reject(error);
  }

  #open(item: Item, opened: (() => void)[]): unknown {
    switch (item.kind) {
      case "function": {
        const { number, isOneWay } = item;
        return (...args: unknown[]) => (isOneWay ? this.tell(number, args) : this.ask(number, args));
      }
      case "signal": {
        const controller = new AbortController();
        if (item.isAborted) controller.abort();
        this.#signals.set(item.number, controller);
        opened.push(() => this.#signals.delete(item.number));
        return controller.signal;
      }
      case "error":
        return openItem(item, this.#carrier);
      case "cargo": {
        const value = openItem(item, this.#carrier) as object;
        opened.push(() => this.#carrier?.free(value));
        return value;
      }
    }
  }
}

function close(opened: (() => void)[]): void {
  for (const one of opened.splice(0)) one();
}

const NOTHING_IS_LENT = {
  lendFunction: () => cannotLend("function"),
  lendSignal: () => cannotLend("signal"),
};

function cannotLend(what: string): never {
  throw new RerollError(
    "INTERNAL",
    `internal: a ${what} cannot be told, since nothing says when it is no longer needed`,
  );
}

function lostWorker(how: string): RerollError {
  return new RerollError("WORKER_LOST", `The worker ${how}.`);
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: RerollError) => void } {
  let resolve = () => {};
  let reject = (_: RerollError) => {};
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
