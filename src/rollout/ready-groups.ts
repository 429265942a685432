/** Complete groups that are waiting to be taken, with the version of their oldest token. */
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import type { GroupPlan } from "./group-run.ts";

interface ReadyGroup {
  readonly plan: GroupPlan;
  readonly group: TrajectoryGroup;
  /** The version of its oldest token; Infinity if it has none. */
  readonly oldestVersion: number;
}

export class ReadyGroups {
  readonly #numByDomain: number[];
  #entries: ReadyGroup[] = [];

  constructor(numDomains: number) {
    this.#numByDomain = Array.from({ length: numDomains }, () => 0);
  }

  get size(): number {
    return this.#entries.length;
  }

  get plans(): readonly GroupPlan[] {
    return this.#entries.map(({ plan }) => plan);
  }

  numOf(domain: number): number {
    return this.#numByDomain[domain]!;
  }

  add(entry: ReadyGroup): void {
    this.#entries.push(entry);
    this.#numByDomain[entry.plan.domain]!++;
  }

  /** Removes groups that have a token of an earlier version. */
  dropBefore(version: number): readonly ReadyGroup[] {
    return this.#remove((entry) => entry.oldestVersion < version);
  }

  /**
   * Removes up to `numGroups` in the order of their prompts: the quota of each domain, and groups of other domains for
   * what is missing.
   */
  take(numGroups: number, quotas: readonly number[]): readonly TrajectoryGroup[] {
    this.#entries.sort((a, b) => a.plan.index - b.plan.index);
    const left = [...quotas];
    const taken = new Set(this.#entries.filter(({ plan }) => left[plan.domain]!-- > 0));
    for (const entry of this.#entries) if (taken.size < numGroups) taken.add(entry);
    return this.#remove((entry) => taken.has(entry)).map(({ group }) => group);
  }

  #remove(isRemoved: (entry: ReadyGroup) => boolean): readonly ReadyGroup[] {
    const removed = this.#entries.filter(isRemoved);
    if (removed.length > 0) this.#entries = this.#entries.filter((entry) => !isRemoved(entry));
    for (const { plan } of removed) this.#numByDomain[plan.domain]!--;
    return removed;
  }
}
