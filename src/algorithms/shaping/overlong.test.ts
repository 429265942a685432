import { expect, test } from "vitest";
import { hardOverlongPenalty, softOverlongPenalty } from "./overlong.ts";

test.each([
  { length: 80, penalty: 0 },
  { length: 90, penalty: -0.5 },
  { length: 100, penalty: -1 },
  { length: 250, penalty: -1 },
])("the soft penalty of $length tokens is $penalty", ({ length, penalty }) => {
  expect(softOverlongPenalty(length, { maxLength: 100, buffer: 20 })).toBe(penalty);
});

test("the factor scales the soft penalty", () => {
  expect(softOverlongPenalty(95, { maxLength: 100, buffer: 20, factor: 2 })).toBe(-1.5);
});

test("the hard penalty starts after the last allowed token", () => {
  const options = { maxLength: 100, penalty: 0.3 };
  expect([100, 101].map((length) => hardOverlongPenalty(length, options))).toEqual([0, -0.3]);
});

test("a buffer longer than the limit is refused", () => {
  expect(() => softOverlongPenalty(1, { maxLength: 10, buffer: 20 })).toThrow(
    /buffer must be at most maxLength: got 20 and 10/,
  );
});
