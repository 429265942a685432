import { expect, test } from "vitest";
import { hardOverlongPenalty, softOverlongPenalty } from "./overlong.ts";

test.each([
  { length: 80, penalty: 0 },
  { length: 90, penalty: -0.5 },
  { length: 100, penalty: -1 },
  { length: 250, penalty: -1 },
])("the soft penalty of $length tokens is $penalty", ({ length, penalty }) => {
  expect(softOverlongPenalty(length, { maxTokens: 100, bufferTokens: 20 })).toBe(penalty);
});

test("the factor scales the soft penalty", () => {
  expect(softOverlongPenalty(95, { maxTokens: 100, bufferTokens: 20, penalty: 2 })).toBe(-1.5);
});

test("the hard penalty starts after the last allowed token", () => {
  const options = { maxTokens: 100, penalty: 0.3 };
  expect([100, 101].map((length) => hardOverlongPenalty(length, options))).toEqual([0, -0.3]);
});

test("a bufferTokens longer than the limit is refused", () => {
  expect(() => softOverlongPenalty(1, { maxTokens: 10, bufferTokens: 20 })).toThrow(
    /bufferTokens must be at most maxTokens: got 20 and 10/,
  );
});
