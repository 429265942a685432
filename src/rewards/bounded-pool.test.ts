import { expect, test } from "vitest";
import { never } from "../../test/rewards/reward-input.ts";
import { createBoundedPool } from "./bounded-pool.ts";

/** A task that ends when it is told to. */
function held() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { task: () => promise, resolve: () => resolve() };
}

test("no more tasks run than slots, and the rest follow in order", async () => {
  const pool = createBoundedPool({ concurrency: 2, maxQueued: 10 });
  const tasks = Array.from({ length: 5 }, held);
  const started: number[] = [];
  const runs = tasks.map(({ task }, i) =>
    pool.run(() => {
      started.push(i);
      return task();
    }, never),
  );
  await Promise.resolve();
  expect([started, pool.numRunning, pool.numQueued]).toEqual([[0, 1], 2, 3]);
  tasks[1]!.resolve();
  await runs[1];
  await Promise.resolve();
  expect(started).toEqual([0, 1, 2]);
  for (const { resolve } of tasks) resolve();
  await Promise.all(runs);
  expect([started, pool.numRunning, pool.numQueued]).toEqual([[0, 1, 2, 3, 4], 0, 0]);
});

test("a full queue refuses, and a task that is called off leaves it", async () => {
  const pool = createBoundedPool({ concurrency: 1, maxQueued: 1 });
  const first = held();
  const running = pool.run(first.task, never);
  const stop = new AbortController();
  const queued = pool.run(async () => "ran", stop.signal);
  await expect(pool.run(async () => "ran", never)).rejects.toMatchObject({ code: "QUEUE_FULL" });
  stop.abort();
  await expect(queued).rejects.toMatchObject({ code: "ABORTED" });
  expect(pool.numQueued).toBe(0);
  first.resolve();
  await running;
  await expect(pool.run(async () => "ran", stop.signal)).rejects.toMatchObject({ code: "ABORTED" });
  expect(await pool.run(async () => "ran", never)).toBe("ran");
});

test("a task that fails frees its slot", async () => {
  const pool = createBoundedPool({ concurrency: 1, maxQueued: 1 });
  await expect(pool.run(() => Promise.reject(new Error("no")), never)).rejects.toThrow("no");
  expect(pool.numRunning).toBe(0);
});
