/** Filters that decide which groups are worth training on: null keeps a group, a text is the reason to drop it. */
import { splitPlayers } from "../flow/split-players.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";

export type GroupFilter = (group: TrajectoryGroup) => string | null;

/**
 * Drops groups whose rewards do not differ, from each other or from a greedy baseline: their advantage is zero everywhere (dynamic
 * sampling, DAPO).
 */
export const dropEqualRewards: GroupFilter = (group) => (hasEqualRewards(group) ? "equal-rewards" : null);

/** Whether the rewards of a group do not differ, for any of its players. */
export function hasEqualRewards(group: TrajectoryGroup): boolean {
  return splitPlayers([group]).every(({ trajectories, greedy }) => {
    const compared = greedy === undefined ? trajectories : [...trajectories, greedy];
    return compared.every(({ reward }) => reward.total === compared[0]!.reward.total);
  });
}

/** Keeps groups whose mean reward lies in a band: neither too hard nor too easy. Bounds are included. */
export function keepDifficulty(low: number, high: number): GroupFilter {
  return ({ trajectories }) => {
    const mean = trajectories.reduce((sum, { reward }) => sum + reward.total, 0) / trajectories.length;
    if (mean < low) return "too-hard";
    return mean > high ? "too-easy" : null;
  };
}

/** Combines filters; the first reason that any of them gives counts. */
export function allFilters(filters: readonly GroupFilter[]): GroupFilter {
  return (group) => {
    for (const filter of filters) {
      const reason = filter(group);
      if (reason !== null) return reason;
    }
    return null;
  };
}
