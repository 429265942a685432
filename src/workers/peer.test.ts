import { MessageChannel } from "node:worker_threads";
import { afterEach, expect, test } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import { batchedTransport } from "./batched-transport.ts";
import { inTurn } from "./in-turn.ts";
import { type Carrier, moved, oneWay } from "./luggage.ts";
import { Peer } from "./peer.ts";
import { Remote } from "./remote.ts";
import { portTransport } from "./thread-transport.ts";
import type { Transport } from "./transport.ts";

/** An interface as callers declare it: nothing below names its methods again. */
interface Counter {
  add(amount: number): Promise<number>;
  addAll(amounts: Float32Array): Promise<number>;
  count(
    to: number,
    listen: { readonly onNumber: (value: number) => void; readonly signal: AbortSignal },
  ): Promise<number>;
  twice<Result>(work: (round: number) => Promise<Result>): Promise<readonly Result[]>;
  fail(error: Error): Promise<never>;
  outcome(): Promise<{ readonly end: { readonly error: Error } }>;
  give(): Promise<unknown>;
  hang(): Promise<void>;
  reset(): void;
}

class LocalCounter implements Counter {
  #total = 0;

  async add(amount: number): Promise<number> {
    this.#total += amount;
    return this.#total;
  }

  async addAll(amounts: Float32Array): Promise<number> {
    return this.add(amounts.reduce((sum, amount) => sum + amount, 0));
  }

  async count(to: number, { onNumber, signal }: Parameters<Counter["count"]>[1]): Promise<number> {
    for (let i = 1; i <= to; i++) {
      if (signal.aborted) return -i;
      onNumber(i);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return to;
  }

  async twice<Result>(work: (round: number) => Promise<Result>): Promise<readonly Result[]> {
    return [await work(1), await work(2)];
  }

  async fail(error: Error): Promise<never> {
    throw error;
  }

  async outcome() {
    return { end: { error: new RerollError("INVALID_OPTION", "too long", { limit: 3 }) } };
  }

  async give(): Promise<unknown> {
    return { tool: () => 1 };
  }

  hang(): Promise<void> {
    return new Promise(() => {});
  }

  reset(): void {
    this.#total = 0;
  }
}

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const port of opened.splice(0)) port.close();
});

function connect(host: object = new LocalCounter(), wrap = (line: Transport) => line, carrier?: Carrier) {
  const { port1, port2 } = new MessageChannel();
  opened.push(port1, port2);
  const options = { ...(carrier !== undefined && { carrier }) };
  const lost = (how: string) => new RerollError("WORKER_LOST", `The counter ${how}.`);
  const counter = new Remote<Counter>(wrap(portTransport(port1)), { ...options, lost });
  new Peer(wrap(portTransport(port2)), host, options).announce();
  return { counter, cut: () => port2.close() };
}

test("a method of the other side is called like one of this side", async () => {
  const { counter } = connect();
  await counter.ready;
  expect(await counter.ask.add(2)).toBe(2);
  expect(await Promise.all([counter.ask.add(3), counter.ask.add(4)])).toEqual([5, 9]);
});

test("what is told arrives in order with what is asked", async () => {
  const { counter } = connect();
  const before = counter.ask.add(5);
  counter.tell.reset();
  expect(await Promise.all([before, counter.ask.add(1)])).toEqual([5, 1]);
});

test("one-way callbacks are heard in order, before the answer", async () => {
  const { counter } = connect();
  const heard: number[] = [];
  const { signal } = new AbortController();
  expect(await counter.ask.count(3, { onNumber: oneWay((value) => void heard.push(value)), signal })).toBe(3);
  expect(heard).toEqual([1, 2, 3]);
});

test("a signal that aborts here aborts there, and the call ends as the other side ends it", async () => {
  const { counter } = connect();
  const controller = new AbortController();
  const onNumber = oneWay((value: number) => value === 2 && controller.abort());
  expect(await counter.ask.count(1e6, { onNumber, signal: controller.signal })).toBeLessThanOrEqual(-3);
  expect(await counter.ask.count(1, { onNumber, signal: AbortSignal.abort() })).toBe(-1);
});

test("a one-way callback that throws fails its own call, with the error itself", async () => {
  const { counter } = connect();
  const reason = new Error("no room");
  const onNumber = oneWay(() => {
    throw reason;
  });
  const { signal } = new AbortController();
  await expect(counter.ask.count(3, { onNumber, signal })).rejects.toBe(reason);
  expect(await counter.ask.add(1)).toBe(1);
});

test("a callback that is not one-way is asked for its result", async () => {
  const { counter } = connect();
  expect(await counter.ask.twice(async (round) => round * 10)).toEqual([10, 20]);
  await expect(counter.ask.twice(async () => Promise.reject(new Error("not today")))).rejects.toThrow("not today");
});

test("errors cross with code, message and details, thrown or in a result; those of others are INTERNAL", async () => {
  const { counter } = connect();
  const ours = new RerollError("INVALID_OPTION", "too long", { limit: 3, check: () => true });
  await expect(counter.ask.fail(ours)).rejects.toMatchObject({
    ...{ name: "RerollError", code: "INVALID_OPTION", message: "too long", details: { limit: 3 } },
  });
  await expect(counter.ask.fail(new TypeError("odd"))).rejects.toMatchObject({ code: "INTERNAL", message: "odd" });
  const { error } = (await counter.ask.outcome()).end;
  expect(error).toBeInstanceOf(RerollError);
  expect(error).toMatchObject({ code: "INVALID_OPTION", details: { limit: 3 } });
});

test("what cannot be sent fails its own call, on either side", async () => {
  const { counter } = connect();
  await expect(counter.ask.add(Symbol("x") as unknown as number)).rejects.toThrow(/could not be cloned/);
  await expect(counter.ask.give()).rejects.toThrow(/could not be cloned/);
  expect(await counter.ask.add(1)).toBe(1);
});

test("arrays are copied, and handed over where they are given away", async () => {
  const { counter } = connect();
  const [kept, given] = [Float32Array.of(1, 2), moved(Float32Array.of(3, 4))];
  expect(await counter.ask.addAll(kept)).toBe(3);
  expect(await counter.ask.addAll(given)).toBe(10);
  expect([kept.length, given.length]).toEqual([2, 0]);
});

test("when the line ends, what waits rejects with how it ended, and so does what comes after", async () => {
  const { counter, cut } = connect();
  const waiting = counter.ask.hang();
  cut();
  await expect(waiting).rejects.toMatchObject({ code: "WORKER_LOST", message: "The counter closed its port." });
  await expect(counter.ask.add(1)).rejects.toBe(counter.ended);
  expect(() => counter.tell.reset()).not.toThrow();
});

test("close lets the object free what it holds; calls after it say that it was closed", async () => {
  let numCloses = 0;
  const { counter } = connect({ add: async () => 1, close: async () => void numCloses++ });
  await Promise.all([counter.close(), counter.close()]);
  expect(numCloses).toBe(1);
  await expect(counter.ask.add(1)).rejects.toThrow("The counter was closed.");
});

test("a host that cannot be built is told to whoever waits for it", async () => {
  const { port1, port2 } = new MessageChannel();
  opened.push(port1);
  const counter = new Remote<Counter>(portTransport(port1), { lost: () => new RerollError("WORKER_LOST", "gone") });
  const early = counter.ask.add(1);
  Peer.refuse(portTransport(port2), new RerollError("INVALID_OPTION", "no such thing"));
  await expect(counter.ready).rejects.toMatchObject({ code: "INVALID_OPTION", message: "no such thing" });
  await expect(early).rejects.toThrow("no such thing");
});

test("only methods of the host can be called", async () => {
  const { counter } = connect();
  const ask = counter.ask as unknown as Record<string, () => Promise<unknown>>;
  await expect(ask.constructor!()).rejects.toThrow('no method "constructor"');
  await expect(ask.subtract!()).rejects.toThrow('no method "subtract"');
});

test("calls in turn wait for the one before, also when that fails", async () => {
  const order: string[] = [];
  const turns = inTurn({
    slow: async () => {
      await new Promise((resolve) => setImmediate(resolve));
      order.push("slow");
      throw new Error("slow failed");
    },
    fast: async () => void order.push("fast"),
  });
  const [slow, fast] = [turns.slow(), turns.fast()];
  await expect(slow).rejects.toThrow("slow failed");
  await fast;
  expect(order).toEqual(["slow", "fast"]);
});

test("a batched line sends what belongs together as one message", async () => {
  let numMessages = 0;
  const counting = (line: Transport): Transport => ({
    ...line,
    post: (...args) => {
      numMessages++;
      line.post(...args);
    },
  });
  const { counter } = connect(new LocalCounter(), (line) => batchedTransport(counting(line), queueMicrotask));
  await counter.ready;
  numMessages = 0;
  expect(await Promise.all([1, 2, 3].map((amount) => counter.ask.add(amount)))).toEqual([1, 3, 6]);
  expect(numMessages).toBeLessThanOrEqual(4);
});

test("cargo of an argument lives for the length of its call, and is discarded when the call never arrives", async () => {
  class Crate {
    isOpen = true;
  }
  const [freed, discarded]: [Crate[], unknown[]] = [[], []];
  const crateCarrier: Carrier<Crate> = {
    carries: (value): value is Crate => value instanceof Crate,
    load: () => "crate",
    unload: () => new Crate(),
    discard: (cargo) => void discarded.push(cargo),
    free: (crate) => {
      crate.isOpen = false;
      freed.push(crate);
    },
  };
  const seen: Crate[] = [];
  const host = {
    add: async ({ crates }: { crates: ReadonlyMap<string, Crate> }) => {
      seen.push(...crates.values());
      return seen.filter(({ isOpen }) => isOpen).length;
    },
    hang: () => new Promise(() => {}),
  };
  const { counter, cut } = connect(host, (line) => line, crateCarrier);
  const crates = new Map([
    ["a", new Crate()],
    ["b", new Crate()],
  ]);
  const ask = counter.ask as unknown as Record<string, (value: unknown) => Promise<unknown>>;
  expect(await ask.add!({ crates })).toBe(2);
  expect(freed).toEqual(seen);
  expect(crates.get("a")?.isOpen).toBe(true);
  const lost = ask.hang!({ crates });
  cut();
  await expect(lost).rejects.toThrow();
  expect(discarded).toEqual(["crate", "crate"]);
});
