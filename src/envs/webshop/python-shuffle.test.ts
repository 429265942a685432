import { expect, test } from "vitest";
import { pythonShuffled } from "./python-shuffle.ts";

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

test("the order is that of Python's random.seed and random.shuffle", () => {
  expect(pythonShuffled(upTo(10), 233)).toEqual([5, 9, 0, 1, 4, 7, 6, 3, 8, 2]);
  expect(pythonShuffled(upTo(8), 0)).toEqual([4, 1, 5, 2, 0, 3, 7, 6]);
});

test("a shuffle that needs more than one block of the generator is Python's too", () => {
  const shuffled = pythonShuffled(upTo(1000), 233);
  expect(shuffled.slice(0, 5)).toEqual([127, 320, 431, 331, 760]);
  expect(shuffled.slice(-5)).toEqual([537, 178, 643, 821, 698]);
});
