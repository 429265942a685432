import fc from "fast-check";
import { expect, test } from "vitest";
import type { TokenSample } from "../flow/token-sample.ts";
import { rowsByRank } from "./split-batch.ts";

function sampleOf(group: number, numTokens: number, trajectory: number): TokenSample {
  return {
    tokenIds: new Int32Array(numTokens),
    lossMask: new Uint8Array(numTokens).fill(1, 1),
    samplerLogprobs: new Float32Array(numTokens),
    versions: new Int32Array(numTokens),
    rewards: new Float32Array(numTokens),
    ...{ group, trajectory, turn: 0, stateKey: "s", isTruncated: false },
  };
}

test("the longest group goes first, each to the rank with the fewest tokens", () => {
  // Groups of 10, 9, 4 and 3 tokens: 10 + 3 and 9 + 4.
  const samples = [4, 10, 3, 9].map((size, group) => sampleOf(group, size, group));
  expect(rowsByRank(samples, 2)).toEqual([
    [1, 2],
    [0, 3],
  ]);
});

test("a rank for which no group is left has no rows", () => {
  expect(rowsByRank([sampleOf(0, 4, 0), sampleOf(0, 5, 1)], 2)).toEqual([[0, 1], []]);
});

test("every sample is on one rank, with all of its group", () => {
  const someGroups = fc.array(fc.array(fc.integer({ min: 2, max: 30 }), { minLength: 1, maxLength: 4 }), {
    minLength: 4,
    maxLength: 20,
  });
  fc.assert(
    fc.property(someGroups, fc.integer({ min: 1, max: 4 }), (groups, numRanks) => {
      const samples = groups.flatMap((sizes, group) => sizes.map((size, i) => sampleOf(group, size, 10 * group + i)));
      const shares = rowsByRank(samples, numRanks);
      expect(shares.flat().toSorted((a, b) => a - b)).toEqual(samples.map((_, row) => row));
      const groupsOn = (rows: readonly number[]) => [...new Set(rows.map((row) => samples[row]!.group))];
      expect(shares.flatMap(groupsOn)).toHaveLength(groups.length);
      // Two ranks differ by no more than the longest group.
      const loads = shares.map((rows) => rows.reduce((sum, row) => sum + samples[row]!.tokenIds.length, 0));
      const longest = Math.max(...groups.map((sizes) => sizes.reduce((sum, size) => sum + size, 0)));
      expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(longest);
    }),
  );
});
