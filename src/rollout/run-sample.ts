/**
 * Runs any `RunEpisode` so that it ends in a trajectory.
 *
 * A user's own agent may reject or return something else: that becomes a failed trajectory, or an aborted one if the
 * signal had ended it. Waits for: the episode, to its very end; an episode that ignores its signal holds up whoever
 * waits.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Trajectory, TrajectoryEnd } from "../flow/trajectory.ts";
import type { EpisodeControl, EpisodeTask, RunEpisode } from "./episode.ts";
import { failure } from "./failure-policy.ts";

export async function runSample(
  runEpisode: RunEpisode,
  task: EpisodeTask,
  control: EpisodeControl,
  clock: Clock,
): Promise<Trajectory> {
  const startedMs = clock();
  try {
    return expectTrajectory(await runEpisode(task, control), task);
  } catch (cause) {
    const wait = { stage: "environment", name: `Episode ${task.id}`, signal: control.signal } as const;
    return emptyTrajectory(task, failure(wait, cause), startedMs, clock() - startedMs);
  }
}

function expectTrajectory(trajectory: Trajectory, { id, groupId }: EpisodeTask): Trajectory {
  const kinds: readonly string[] = ["completed", "truncated", "aborted", "failed"];
  const isWhole = Array.isArray(trajectory?.turns) && kinds.includes(trajectory.end?.kind);
  if (isWhole && trajectory.id === id && trajectory.groupId === groupId) return trajectory;
  throw new RerollError(
    "EPISODE_BROKEN",
    `runEpisode must give a trajectory with the id and groupId of its task, turns, and an end: got id ${trajectory?.id} for task ${id}.`,
  );
}

function emptyTrajectory(
  { queuedMs, ...task }: EpisodeTask,
  end: TrajectoryEnd,
  startedMs: number,
  totalMs: number,
): Trajectory {
  return {
    ...task,
    turns: [],
    end,
    reward: { total: 0, score: 0, parts: {} },
    metrics: {},
    timings: { startedMs, queuedMs, generateMs: 0, envMs: 0, rewardMs: 0, totalMs },
  };
}
