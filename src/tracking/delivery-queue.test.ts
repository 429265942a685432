import { expect, test } from "vitest";
import { DeliveryQueue, DeliveryRefused } from "./delivery-queue.ts";
import type { MetricRecord } from "./run-record.ts";

const fast = { intervalMs: 1, retryMs: 1, closeMs: 2000 };
const record = (step: number): MetricRecord => ({ step, timeMs: 0, kind: "train", metrics: {} });

function queueOf(send: (steps: readonly number[], signal: AbortSignal) => Promise<void>, options = {}) {
  const warnings: string[] = [];
  const queue = new DeliveryQueue({
    name: "Server",
    send: (batch, signal) =>
      send(
        batch.map(({ step }) => step),
        signal,
      ),
    warn: (text) => warnings.push(text),
    options: { ...fast, ...options },
  });
  return { queue, warnings };
}

test("records arrive in order, in batches of at most the given size", async () => {
  const batches: (readonly number[])[] = [];
  const { queue, warnings } = queueOf(async (steps) => void batches.push(steps), { intervalMs: 60_000, maxBatch: 2 });
  for (let step = 1; step <= 5; step++) queue.push(record(step));
  expect(await queue.close()).toBe(true);
  expect(batches).toEqual([[1, 2], [3, 4], [5]]);
  expect(warnings).toEqual([]);
});

test("a batch that failed is sent again, and an outage is one warning", async () => {
  let numTries = 0;
  const arrived: number[] = [];
  const { queue, warnings } = queueOf(async (steps) => {
    if (++numTries <= 3) throw new Error("no route");
    arrived.push(...steps);
  });
  queue.push(record(1));
  queue.push(record(2));
  expect(await queue.close()).toBe(true);
  expect(arrived).toEqual([1, 2]);
  expect(warnings).toEqual(["Server cannot be reached and is tried again later: no route"]);
});

test("a refusal ends it with one warning", async () => {
  let numTries = 0;
  const { queue, warnings } = queueOf(async () => {
    numTries++;
    throw new DeliveryRefused("wrong key");
  });
  queue.push(record(1));
  expect(await queue.close()).toBe(false);
  queue.push(record(2));
  expect(await queue.close()).toBe(false);
  expect(numTries).toBe(1);
  expect(warnings).toEqual(["Server refuses the metrics, and gets no more of them: wrong key"]);
});

test("a server that never answers does not hold up the end of a run", async () => {
  const never = (_: readonly number[], signal: AbortSignal) =>
    new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { queue, warnings } = queueOf(never, { closeMs: 30 });
  queue.push(record(1));
  expect(await queue.close()).toBe(false);
  expect(warnings).toEqual(["Server is still away: 1 records are not there."]);
});

test("more records than may wait push out the oldest", async () => {
  const arrived: number[] = [];
  const { queue } = queueOf(async (steps) => void arrived.push(...steps), { intervalMs: 60_000, maxWaiting: 3 });
  for (let step = 1; step <= 5; step++) queue.push(record(step));
  await queue.close();
  expect(arrived).toEqual([3, 4, 5]);
});
