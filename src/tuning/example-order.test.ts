import { expect, test } from "vitest";
import { exampleOrder } from "./example-order.ts";

const order = (rowsPerStep: number, seed = 1) => exampleOrder({ numExamples: 5, rowsPerStep, numInAll: 15, seed });

test("every pass holds every example once, in an order of its own, and batches run across passes", () => {
  const batches = Array.from({ length: 4 }, (_, step) => order(4)(step));
  expect(batches.map(({ length }) => length)).toEqual([4, 4, 4, 3]);
  const all = batches.flat();
  const passes = [all.slice(0, 5), all.slice(5, 10), all.slice(10)];
  for (const pass of passes) expect([...pass].sort()).toEqual([0, 1, 2, 3, 4]);
  expect(new Set(passes.map(String)).size).toBe(3);
});

test("the order follows from the seed, whatever the size of a batch and wherever it is begun", () => {
  const places = [0, 1, 2, 3, 4].flatMap((step) => order(3)(step));
  expect([3, 0, 1].map((step) => order(4)(step))).toEqual([places.slice(12), places.slice(0, 4), places.slice(4, 8)]);
  expect([0, 1, 2].flatMap((step) => order(5, 2)(step))).not.toEqual(places);
});
