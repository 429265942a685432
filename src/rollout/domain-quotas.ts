/**
 * Holds the shares of domains among delivered groups exactly.
 *
 * Groups are dropped and refilled at different rates in different domains, so the ratio of prompts is not the ratio of
 * what reaches training. Each batch has a quota per domain; whatever rounding takes from a domain is given back in
 * later batches.
 */
import { RerollError } from "../errors/reroll-error.ts";

export interface DomainQuotas {
  /** Number of groups of each domain in the batch. */
  readonly quotas: readonly number[];
  /** What each domain is owed after the batch, in fractions of a group. They add up to 0. */
  readonly owed: readonly number[];
}

/** Ratios as shares that add up to 1. */
export function sharesOf(ratios: readonly number[]): readonly number[] {
  const total = ratios.reduce((sum, ratio) => sum + ratio, 0);
  if (ratios.length === 0 || !ratios.every((ratio) => ratio >= 0) || !(total > 0 && Number.isFinite(total))) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `Shares of domains must be numbers of at least 0 that are not all 0: got ${ratios.join(", ")}.`,
      { ratios },
    );
  }
  return ratios.map((ratio) => ratio / total);
}

/** How many groups of the next batch belong to each domain; they add up to `numGroups` (largest remainder). */
export function splitByShare(shares: readonly number[], owed: readonly number[], numGroups: number): DomainQuotas {
  const exact = shares.map((share, domain) => share * numGroups + owed[domain]!);
  const quotas = exact.map((value) => Math.max(0, Math.floor(value)));
  const byRemainder = exact
    .map((value, domain) => ({ domain, rest: value - quotas[domain]! }))
    .sort((a, b) => b.rest - a.rest || a.domain - b.domain);
  let left = numGroups - quotas.reduce((sum, quota) => sum + quota, 0);
  for (let i = 0; left > 0; i++, left--) quotas[byRemainder[i % byRemainder.length]!.domain]!++;
  for (let i = byRemainder.length - 1; left < 0; i = i === 0 ? byRemainder.length - 1 : i - 1) {
    const { domain } = byRemainder[i]!;
    if (quotas[domain] === 0) continue;
    quotas[domain]!--;
    left++;
  }
  return { quotas, owed: exact.map((value, domain) => value - quotas[domain]!) };
}
