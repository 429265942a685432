/** The age of sampled tokens. */
import type { Trajectory } from "../flow/trajectory.ts";

/** The version of the oldest token; Infinity if there is none. */
export function oldestVersionOf(trajectories: readonly Trajectory[]): number {
  let oldest = Infinity;
  for (const { turns } of trajectories) {
    for (const { reply } of turns) for (const version of reply.versions) oldest = Math.min(oldest, version);
  }
  return oldest;
}
