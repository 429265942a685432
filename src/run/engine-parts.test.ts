import { expect, test } from "vitest";
import { openAll } from "./engine-parts.ts";

/** One that opens, or fails to, after some turns of the event loop, and remembers that it was closed. */
function opening(name: string, numTurns: number, closed: string[], fails = false) {
  const open = async () => {
    for (let i = 0; i < numTurns; i++) await new Promise(setImmediate);
    if (fails) throw new Error(`${name} failed`);
    return { name, close: async () => void closed.push(name) };
  };
  return open();
}

test("what opens together comes in its order, and stays open", async () => {
  const closed: string[] = [];
  const opened = await openAll([opening("slow", 3, closed), opening("fast", 0, closed)]);
  expect(opened.map(({ name }) => name)).toEqual(["slow", "fast"]);
  expect(closed).toEqual([]);
});

test("where one fails all others are closed, those too that open later or that nobody else waits for", async () => {
  const closed: string[] = [];
  const openings = [
    opening("early", 0, closed),
    opening("first", 1, closed, true),
    opening("late", 4, closed),
    opening("second", 5, closed, true),
  ];
  await expect(openAll(openings)).rejects.toThrow("first failed");
  expect(closed.toSorted()).toEqual(["early", "late"]);
});
