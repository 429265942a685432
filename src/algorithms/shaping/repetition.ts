/** A penalty for saying the same thing again. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectRange } from "../expect-batch.ts";

interface RepetitionOptions {
  /** The length of the runs that are compared, in tokens or words. */
  readonly ngram: number;
  /** The penalty when every run is the same. Default 1. */
  readonly maxPenalty?: number;
}

/**
 * -maxPenalty (1 - distinct n-grams / all n-grams); 0 for a reply shorter than one n-gram. To be added to the reward.
 * Items are token ids or words; they are compared by value.
 *
 * Source: arXiv:2502.03373, appendix C.
 */
export function repetitionPenalty(
  items: readonly (number | string)[],
  { ngram, maxPenalty = 1 }: RepetitionOptions,
): number {
  expectRange("maxPenalty", maxPenalty, 0);
  if (!Number.isSafeInteger(ngram) || ngram < 1) {
    throw new RerollError("INVALID_ARGUMENT", `ngram must be a whole number of at least 1: got ${ngram}.`, { ngram });
  }
  const total = items.length - ngram + 1;
  if (total < 1) return 0;
  const distinct = new Set(
    Array.from({ length: total }, (_, start) => JSON.stringify(items.slice(start, start + ngram))),
  );
  return distinct.size === total ? 0 : -maxPenalty * (1 - distinct.size / total);
}
