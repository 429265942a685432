/** The share of a batch that one rank trains on. */
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";

/**
 * Which samples each rank trains on, by their places: whole groups, spread so that the ranks have about equally many tokens. The
 * longest group goes first, each to the rank with the fewest.
 */
export function placesByRank(samples: readonly TokenSample[], numRanks: number): readonly (readonly number[])[] {
  const tokensOf = new Map<number, number>();
  for (const { group, tokenIds } of samples) tokensOf.set(group, (tokensOf.get(group) ?? 0) + tokenIds.length);
  const loads = new Array<number>(numRanks).fill(0);
  const rankOf = new Map<number, number>();
  for (const [group, numTokens] of [...tokensOf].sort(([a, left], [b, right]) => right - left || a - b)) {
    const lightest = loads.indexOf(Math.min(...loads));
    loads[lightest]! += numTokens;
    rankOf.set(group, lightest);
  }
  const places: number[][] = loads.map(() => []);
  for (const [place, { group }] of samples.entries()) places[rankOf.get(group)!]!.push(place);
  return places;
}

/**
 * The share of one rank. All ranks make the same plan from the same batch, and group numbers stay what they are. A rank for which
 * no group is left gets a sample without loss tokens: it has nothing to say, but must take part.
 */
export function splitByGroups({ samples, version }: SampleBatch, rank: number, numRanks: number): SampleBatch {
  return { samples: shareOf(samples, placesByRank(samples, numRanks)[rank]!), version };
}

/** The samples at these places, or one without loss tokens where there are none. */
export function shareOf(samples: readonly TokenSample[], places: readonly number[]): readonly TokenSample[] {
  return places.length > 0 ? places.map((place) => samples[place]!) : samples.slice(0, 1).map(silent);
}

function silent(sample: TokenSample): TokenSample {
  return { ...sample, lossMask: new Uint8Array(sample.lossMask.length) };
}
