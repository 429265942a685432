import { expect, test } from "vitest";
import { softOverlongPenalty } from "./overlong.ts";

test.each([
  { length: 80, penalty: 0 },
  { length: 90, penalty: -0.5 },
  { length: 100, penalty: -1 },
  { length: 250, penalty: -1 },
])("the penalty of $length tokens is $penalty", ({ length, penalty }) => {
  expect(softOverlongPenalty(length, { maxTokens: 100, bufferTokens: 20 })).toBe(penalty);
});

test("the penalty scales the whole curve", () => {
  expect(softOverlongPenalty(95, { maxTokens: 100, bufferTokens: 20, penalty: 2 })).toBe(-1.5);
});

test("a buffer longer than the limit is refused", () => {
  expect(() => softOverlongPenalty(1, { maxTokens: 10, bufferTokens: 20 })).toThrow(
    /bufferTokens must be at most maxTokens: got 20 and 10/,
  );
});
