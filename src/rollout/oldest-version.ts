/** The age of sampled tokens. */
import type { Trajectory } from "../flow/trajectory.ts";

/** The version of the oldest token; Infinity if there is none. */
export function oldestVersionOf(trajectories: readonly Trajectory[]): number {
  let oldest = Infinity;
  for (const { turns } of trajectories) {
    for (const { reply } of turns) {
      const { versions } = reply;
      // By index: this reads every token of a rollout, and an iterator takes many times as long.
      for (let i = 0; i < versions.length; i++) if (versions[i]! < oldest) oldest = versions[i]!;
    }
  }
  return oldest;
}
