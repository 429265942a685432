import fc from "fast-check";
import { expect, test } from "vitest";
import { tokenSetRatio } from "./token-set-ratio.ts";

test.each([
  // Shared "essential", others "oil" and "oils": 2 * 13 / 27 = 0.963.
  ["essential oil", "essential oils", 96],
  ["powder snow", "cool powder snow", 100],
  // "large" against "large x": 2 * 5 / 12 = 0.833.
  ["x-large", "size large", 83],
  ["large", "size x-large", 100],
  // "tea" against "tea bag": 2 * 3 / 10; against "tea tree": 6 / 11.
  ["tea tree", "tea bag", 60],
  ["Easy Clean!", "easy to clean", 100],
  ["", "a", 0],
])("%j and %j are alike to %i", (left, right, ratio) => {
  expect(tokenSetRatio(left, right)).toBe(ratio);
});

test("the ratio does not depend on the order of the texts or of their words, and stays within 0 and 100", () => {
  const words = fc.array(fc.constantFrom("red", "blue", "x", "large", "pack", "of", "2"), {
    minLength: 1,
    maxLength: 5,
  });
  fc.assert(
    fc.property(words, words, (left, right) => {
      const ratio = tokenSetRatio(left.join(" "), right.join(" "));
      expect(tokenSetRatio(right.join(" "), left.join(" "))).toBe(ratio);
      expect(tokenSetRatio([...left].reverse().join(" "), right.join(" "))).toBe(ratio);
      expect(ratio).toBeGreaterThanOrEqual(0);
      expect(ratio).toBeLessThanOrEqual(100);
    }),
  );
});
