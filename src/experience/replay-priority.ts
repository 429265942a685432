/** How much a group is worth replaying. */
import type { TrajectoryGroup } from "../flow/trajectory.ts";

/**
 * What can raise the chance of a replay. `recency`: 1 for the weights being trained, halved with every half-life since.
 * `advantage`: the spread of the rewards in the group, which bounds the advantages that a baseline over the group can give.
 * `reward`: the mean size of the rewards. `rarity`: how few groups in the buffer have the same states, or the same prompt
 * where the environment names no states. `td-error`: how wrong the critic was about the group when it was last trained on,
 * which training has to tell.
 */
type ReplaySignal = "recency" | "advantage" | "reward" | "rarity" | "td-error";

/**
 * How strongly each signal counts. A priority is the product of the signals, each to the power of its weight: what they are
 * measured in makes no difference, and a weight of 0 leaves a signal out.
 */
export type ReplayWeights = Readonly<Record<ReplaySignal, number>>;

/** The signals of a group that do not change with the other groups, or with time. */
export interface KnownSignals {
  readonly advantage: number;
  readonly reward: number;
  readonly "td-error": number;
}

/**
 * The weights of a choice. A name means recency and that signal, `uniform` means recency alone. In a record, recency is
 * 1 unless it says otherwise.
 */
export function weightsOf(
  priority: "uniform" | Exclude<ReplaySignal, "recency"> | Readonly<Partial<Record<ReplaySignal, number>>>,
): ReplayWeights {
  const none = { recency: 1, advantage: 0, reward: 0, rarity: 0, "td-error": 0 };
  if (typeof priority !== "string") return { ...none, ...priority };
  return priority === "uniform" ? none : { ...none, [priority]: 1 };
}

/**
 * The signals of a new group. Until its TD error is known it is the largest in the buffer, so that every group is likely to
 * be trained on once (PER, algorithm 1).
 */
export function signalsOf(group: TrajectoryGroup, largestTdError: number): KnownSignals {
  const totals = group.trajectories.filter(hasReward).map(({ reward }) => reward.total);
  return { advantage: deviation(totals), reward: mean(totals.map(Math.abs)), "td-error": largestTdError };
}

/** Keys that rarity is counted over: the distinct states of all turns, or the prompt. */
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
