import { expect, test } from "vitest";
import type { SpanRecord } from "../tracking/run-record.ts";
import { idleShare, joinClose } from "./span-columns.ts";

function span(startMs: number, endMs: number, step = 1): SpanRecord {
  return { worker: "engine", stage: "generating", startMs, endMs, step };
}

test("spans closer than a point of the screen are joined, and others are not", () => {
  expect(joinClose([span(0, 10), span(12, 20), span(30, 40)], 5)).toEqual([span(0, 20), span(30, 40)]);
});

test("long spans of two steps stay apart even where they touch", () => {
  expect(joinClose([span(0, 10, 1), span(10, 20, 2)], 5)).toEqual([span(0, 10, 1), span(10, 20, 2)]);
});

test("idle is what no span covers; overlaps count once, and what lies outside does not", () => {
  // Covered of 0 to 100: 0-10, 20-50 twice in part, 90-100 of a span that goes on.
  const spans = [span(-5, 10), span(20, 40), span(30, 50), span(90, 500)];
  expect(idleShare(spans, "engine", 0, 100)).toBeCloseTo(0.5, 12);
  expect(idleShare(spans, "trainer", 0, 100)).toBe(1);
});
