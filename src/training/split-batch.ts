/** The share of a batch that one rank trains on. */
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";

/**
 * Whole groups, spread so that the ranks have about equally many tokens: the longest group first, each to the rank with
 * the fewest. All ranks make the same plan from the same batch, and group numbers stay what they are. A rank for which
 * no group is left gets a sample without loss tokens: it has nothing to say, but must take part.
 */
export function splitByGroups({ samples, version }: SampleBatch, rank: number, numRanks: number): SampleBatch {
  const tokensOf = new Map<number, number>();
  for (const { group, tokenIds } of samples) tokensOf.set(group, (tokensOf.get(group) ?? 0) + tokenIds.length);
  const loads = new Array<number>(numRanks).fill(0);
  const rankOf = new Map<number, number>();
  for (const [group, numTokens] of [...tokensOf].sort(([a, left], [b, right]) => right - left || a - b)) {
    const lightest = loads.indexOf(Math.min(...loads));
    loads[lightest]! += numTokens;
    rankOf.set(group, lightest);
  }
  const own = samples.filter(({ group }) => rankOf.get(group) === rank);
  return { samples: own.length > 0 ? own : samples.slice(0, 1).map(silent), version };
}

function silent(sample: TokenSample): TokenSample {
  return { ...sample, lossMask: new Uint8Array(sample.lossMask.length) };
}
