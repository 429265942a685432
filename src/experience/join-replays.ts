/**
 * Joins fresh and replayed rows into one batch, in which the groups and trajectories of replays get numbers of their
 * own.
 */
import type { TokenSample } from "../flow/token-sample.ts";
import type { Replay } from "./replay-buffer.ts";

/** Number of draws that make up this share of a batch whose other groups are fresh. */
export function numReplays(numFresh: number, ratio: number): number {
  return Math.round((numFresh * ratio) / (1 - ratio));
}

/** The number of the first replay's group in a batch; the others follow in order. */
export function firstReplayGroup(fresh: readonly TokenSample[]): number {
  return after(fresh.map(({ group }) => group));
}

/** The fresh rows, then the rows of each replay with its weight. */
export function joinReplays(fresh: readonly TokenSample[], replays: readonly Replay[]): readonly TokenSample[] {
  const firstGroup = firstReplayGroup(fresh);
  let nextTrajectory = after(fresh.map(({ trajectory }) => trajectory));
  const replayed = replays.flatMap(({ samples, weight }, index) => {
    const numbers = new Map<number, number>();
    for (const { trajectory } of samples) {
      if (!numbers.has(trajectory)) numbers.set(trajectory, nextTrajectory++);
    }
    const place = (trajectory: number) => ({ group: firstGroup + index, trajectory: numbers.get(trajectory)! });
    return samples.map((sample) => ({ ...sample, ...place(sample.trajectory), weight }));
  });
  return [...fresh, ...replayed];
}

function after(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), -1) + 1;
}
