import fc from "fast-check";
import { expect, test } from "vitest";
import { packRows } from "./pack-rows.ts";

test("the longest row comes first, and each goes to the emptiest part", () => {
  expect(packRows([5, 4, 3, 2], 7)).toEqual([
    [0, 3],
    [1, 2],
  ]);
  expect(packRows([4, 4, 4], 8)).toEqual([[0, 2], [1]]);
  // 6 + 4 and 5 + 3 + 2 would fit two parts, which longest first does not find.
  expect(packRows([3, 6, 2, 4, 5], 10)).toEqual([[1], [4, 2], [3, 0]]);
});

test("a row that does not fit says which budget would", () => {
  expect(() => packRows([3, 12], 10)).toThrow(/12 tokens, but maxTokensPerMicrobatch is 10. Raise it to 12/);
});

test("no rows are no parts", () => {
  expect(packRows([], 10)).toEqual([]);
});

const budget = 64;
const someLengths = fc.array(fc.integer({ min: 1, max: budget }), { maxLength: 60 });

test("every row is in one part, and no part is beyond the budget", () => {
  fc.assert(
    fc.property(someLengths, (lengths) => {
      const parts = packRows(lengths, budget);
      expect(parts.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, row) => row));
      for (const rows of parts) {
        expect(rows.length).toBeGreaterThan(0);
        expect(sumOf(rows.map((row) => lengths[row]!))).toBeLessThanOrEqual(budget);
      }
    }),
  );
});

test("the same lengths give the same parts", () => {
  fc.assert(
    fc.property(someLengths, (lengths) => {
      expect(packRows([...lengths], budget)).toEqual(packRows(lengths, budget));
    }),
  );
});

/**
 * Nobody can do with fewer parts than the tokens need, nor than there are rows longer than half of the budget.
 * Spreading longest first stays within half as many again of that.
 */
test("there are nearly as few parts as possible", () => {
  fc.assert(
    fc.property(someLengths, (lengths) => {
      const fewest = Math.max(
        Math.ceil(sumOf(lengths) / budget),
        lengths.filter((length) => 2 * length > budget).length,
      );
      expect(packRows(lengths, budget).length).toBeLessThanOrEqual(Math.ceil(1.5 * fewest));
    }),
    { numRuns: 500, seed: 5 },
  );
});

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
