import fc from "fast-check";
import { expect, test } from "vitest";
import { rowsByRank } from "./split-batch.ts";
import { gridOf } from "./token-rows.ts";

/** A grid of samples of these lengths, with tokens of their own. */
function gridWith(lengths: readonly number[]) {
  const samples = lengths.map((numTokens, row) => ({
    tokenIds: new Int32Array(numTokens).fill(row),
    lossMask: new Uint8Array(numTokens).fill(1, 1),
  }));
  return gridOf(samples);
}

test("the longest row goes first, each to the rank with the fewest tokens", () => {
  // Rows of 10, 9, 4 and 3 tokens: 10 + 3 and 9 + 4.
  expect(rowsByRank(gridWith([4, 10, 3, 9]), 2)).toEqual([
    [1, 2],
    [0, 3],
  ]);
});

test("a rank for which no row is left has none", () => {
  expect(rowsByRank(gridWith([4]), 2)).toEqual([[0], []]);
});

test("rows with the same tokens stay together, since they go through a model once", () => {
  const twin = { tokenIds: new Int32Array(5), lossMask: new Uint8Array(5).fill(1, 1) };
  const other = { tokenIds: new Int32Array(4).fill(1), lossMask: new Uint8Array(4).fill(1, 1) };
  expect(rowsByRank(gridOf([twin, other, twin]), 2)).toEqual([[0, 2], [1]]);
});

test("every row is on one rank, and the loads of two ranks differ by no more than the longest row", () => {
  const someLengths = fc.array(fc.integer({ min: 2, max: 30 }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(someLengths, fc.integer({ min: 1, max: 4 }), (lengths, numRanks) => {
      const shares = rowsByRank(gridWith(lengths), numRanks);
      expect(shares.flat().toSorted((a, b) => a - b)).toEqual(lengths.map((_, row) => row));
      const loads = shares.map((rows) => rows.reduce((sum, row) => sum + lengths[row]!, 0));
      expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(Math.max(...lengths));
    }),
  );
});
