/** Decides from counts which groups are missing, and which domain the next one should come from. */

/** Counts by domain. */
export interface GroupCounts {
  readonly ready: (domain: number) => number;
  readonly running: (domain: number) => number;
  /** Whether the domain can still provide groups. */
  readonly isOpen: (domain: number) => boolean;
}

/** Groups that a caller of `take` is waiting for. */
interface Demand {
  readonly numGroups: number;
  /** Per domain; they add up to `numGroups`. */
  readonly quotas: readonly number[];
}

/**
 * Number of groups that are wanted and not counted by `numOf`, of domains that can still provide some and in total,
 * since others make up for a domain that has ended.
 */
export function numMissing(
  demand: Demand | null,
  numOf: (domain: number) => number,
  isOpen: (domain: number) => boolean,
): number {
  if (demand === null) return 0;
  let numThere = 0;
  let numLacking = 0;
  for (const [domain, quota] of demand.quotas.entries()) {
    numThere += numOf(domain);
    if (isOpen(domain)) numLacking += Math.max(0, quota - numOf(domain));
  }
  return Math.max(numLacking, demand.numGroups - numThere);
}

/** The open domain that lacks the most groups, and among equals the one furthest behind its share. */
export function neediestDomain(
  demand: Demand | null,
  { ready, running, isOpen }: GroupCounts,
  shares: readonly number[],
  owed: readonly number[],
): number | undefined {
  const numOf = (domain: number) => ready(domain) + running(domain);
  const numNext = 1 + shares.reduce((sum, _, domain) => sum + numOf(domain), 0);
  const needs = shares.map((share, domain) => ({
    domain,
    missing: Math.max(0, (demand?.quotas[domain] ?? 0) - numOf(domain)),
    behind: share * numNext + owed[domain]! - numOf(domain),
  }));
  const open = needs.filter(({ domain }) => isOpen(domain));
  return open.sort((a, b) => b.missing - a.missing || b.behind - a.behind || a.domain - b.domain)[0]?.domain;
}
