import fc from "fast-check";
import { expect, test } from "vitest";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import { splitByGroups } from "./split-batch.ts";

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

function groupsOn({ samples }: SampleBatch): readonly number[] {
  return [...new Set(samples.map(({ group }) => group))];
}

test("the longest group goes first, each to the rank with the fewest tokens", () => {
  // Groups of 10, 9, 4 and 3 tokens: 10 + 3 and 9 + 4.
  const sizes = [4, 10, 3, 9];
  const batch = { samples: sizes.map((size, group) => sampleOf(group, size, group)), version: 5 };
  expect(groupsOn(splitByGroups(batch, 0, 2))).toEqual([1, 2]);
  expect(groupsOn(splitByGroups(batch, 1, 2))).toEqual([0, 3]);
  expect(splitByGroups(batch, 1, 2).version).toBe(5);
});

test("a rank without a group gets a sample without loss tokens", () => {
  const batch = { samples: [sampleOf(0, 4, 0), sampleOf(0, 5, 1)], version: 0 };
  expect(splitByGroups(batch, 0, 2).samples).toEqual(batch.samples);
  const [idle, ...others] = splitByGroups(batch, 1, 2).samples;
  expect(others).toEqual([]);
  expect([...idle!.lossMask]).toEqual([0, 0, 0, 0]);
});

test("every sample is on one rank, with all of its group", () => {
  const someGroups = fc.array(fc.array(fc.integer({ min: 2, max: 30 }), { minLength: 1, maxLength: 4 }), {
    minLength: 4,
    maxLength: 20,
  });
  fc.assert(
    fc.property(someGroups, fc.integer({ min: 1, max: 4 }), (groups, numRanks) => {
      const samples = groups.flatMap((sizes, group) => sizes.map((size, i) => sampleOf(group, size, 10 * group + i)));
      const shares = Array.from({ length: numRanks }, (_, rank) =>
        splitByGroups({ samples, version: 0 }, rank, numRanks),
      );
      const all = shares.flatMap((share) => share.samples);
      expect(new Set(all)).toEqual(new Set(samples));
      expect(all).toHaveLength(samples.length);
      expect(shares.flatMap(groupsOn)).toHaveLength(groups.length);
      // Two ranks differ by no more than the longest group.
      const loads = shares.map((share) => share.samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0));
      const longest = Math.max(...groups.map((sizes) => sizes.reduce((sum, size) => sum + size, 0)));
      expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(longest);
    }),
  );
});
