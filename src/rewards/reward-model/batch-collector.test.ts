import { expect, test } from "vitest";
import { never } from "../../../test/rewards/reward-input.ts";
import { createBatchCollector } from "./batch-collector.ts";

function collecting(maxWeight: number, runBatch?: (items: readonly number[]) => number[]) {
  const batches: (readonly number[])[] = [];
  const collector = createBatchCollector<number, number>({
    windowMs: 5,
    maxWeight,
    weightOf: (item) => item,
    runBatch: (items) => {
      batches.push(items);
      return runBatch?.(items) ?? items.map((item) => item * 10);
    },
  });
  return { batches, add: (item: number, signal = never) => collector.add(item, signal), flush: collector.flush };
}

test("what comes together runs together, and each gets its own result", async () => {
  const { batches, add } = collecting(100);
  expect(await Promise.all([add(1), add(2), add(3)])).toEqual([10, 20, 30]);
  expect(await add(4)).toBe(40);
  expect(batches).toEqual([[1, 2, 3], [4]]);
});

test("a batch never weighs more than allowed, but for one that is too heavy alone", async () => {
  const { batches, add } = collecting(10);
  await Promise.all([4, 5, 6, 20, 3, 7].map((item) => add(item)));
  expect(batches).toEqual([[4, 5], [6], [20], [3, 7]]);
});

test("who was called off is left out", async () => {
  const { batches, add } = collecting(100);
  const stop = new AbortController();
  const both = [add(1, stop.signal), add(2)] as const;
  stop.abort();
  await expect(both[0]).rejects.toMatchObject({ code: "ABORTED" });
  expect(await both[1]).toBe(20);
  expect(batches).toEqual([[2]]);
});

test("a batch that fails, fails for all, and the next one runs", async () => {
  const { add } = collecting(100, (items) => {
    if (items.includes(1)) throw new Error("out of memory");
    return [...items];
  });
  const both = [add(1), add(2)];
  for (const one of both) await expect(one).rejects.toThrow("out of memory");
  expect(await add(3)).toBe(3);
});
