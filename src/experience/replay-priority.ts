/** The priority of a group for replay, before its age is counted. */
import type { TrajectoryGroup } from "../flow/trajectory.ts";

/**
 * What raises the chance of a replay. `uniform`: nothing but recency. `advantage`: the spread of the rewards in the
 * group, which bounds the advantages that a baseline over the group can give. `reward`: the mean size of the rewards.
 * `rarity`: how few groups in the buffer have the same states, or the same prompt where the environment names no
 * states. `td-error`: how wrong the critic was about the group when it was last trained on, which training has to tell.
 */
export type ReplayPriority = "uniform" | "advantage" | "reward" | "rarity" | "td-error";

/**
 * The signal of a new group; undefined for rarity, which depends on the other groups. Until a TD error is known it is the
 * largest in the buffer, so that every group is likely to be trained on once (PER, algorithm 1).
 */
export function signalOf(priority: ReplayPriority, group: TrajectoryGroup, largest: number): number | undefined {
  const totals = group.trajectories.filter(hasReward).map(({ reward }) => reward.total);
  switch (priority) {
    case "uniform":
      return 1;
    case "advantage":
      return deviation(totals);
    case "reward":
      return mean(totals.map(Math.abs));
    case "rarity":
      return undefined;
    case "td-error":
      return largest;
  }
}

/** What rarity counts: the distinct states of all turns, or the prompt. */
export function rarityKeys({ prompt, trajectories }: TrajectoryGroup): readonly string[] {
  const states = trajectories.flatMap(({ turns }) => turns.flatMap(({ stateKey }) => stateKey ?? []));
  return states.length === 0 ? [prompt.id] : [...new Set(states)];
}

/** The mean over the keys of one over the number of groups that have the key. */
export function rarityOf(keys: readonly string[], numGroupsWith: ReadonlyMap<string, number>): number {
  return mean(keys.map((key) => 1 / (numGroupsWith.get(key) ?? 1)));
}

function hasReward({ end }: TrajectoryGroup["trajectories"][number]): boolean {
  return end.kind === "completed" || end.kind === "truncated";
}

function deviation(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
