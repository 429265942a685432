import { expect, test } from "vitest";
import { promptOf } from "../../test/rollout/episode-parts.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Trajectory, TrajectoryEnd } from "../flow/trajectory.ts";
import { GroupRun, type GroupSizes, type SampleTask } from "./group-run.ts";

const completed: TrajectoryEnd = { kind: "completed" };
const failed: TrajectoryEnd = { kind: "failed", stage: "reward", error: new RerollError("FAILED", "no") };
const aborted: TrajectoryEnd = { kind: "aborted" };

test("a group is complete with its size, and the samples come in the order of their places", () => {
  const { run, start } = groupOf({ groupSize: 2, extraSamples: 1, maxFailures: 0 });
  const [first, second, third] = [start(), start(), start()];
  expect(run.start()).toBeUndefined();
  run.finish(trajectoryOf(third.task, completed));
  expect(run.isComplete).toBe(false);
  run.finish(trajectoryOf(first.task, completed));
  expect(run.isComplete).toBe(true);
  expect(second.signal.aborted).toBe(true);
  run.finish(trajectoryOf(second.task, completed));
  expect(run.group().trajectories.map(({ id }) => id)).toEqual(["4-0", "4-2"]);
});

test("a failed sample is replaced by one with a place, a seed and a time of its own", () => {
  const { run, start, setTime } = groupOf({ groupSize: 2, extraSamples: 0, maxFailures: 1 });
  const [first, second] = [start(), start()];
  setTime(50);
  run.finish(trajectoryOf(first.task, failed));
  const third = start();
  expect(third.task).toMatchObject({ id: "4-2", groupId: "4", sampleIndex: 2, queuedAtMs: 50 });
  expect(new Set([first, second, third].map(({ task }) => task.seed)).size).toBe(3);
});

test("one failure more than allowed gives the group up and ends what runs", () => {
  const { run, start } = groupOf({ groupSize: 2, extraSamples: 0, maxFailures: 1 });
  const [first, second] = [start(), start()];
  run.finish(trajectoryOf(first.task, failed));
  run.finish(trajectoryOf(start().task, failed));
  expect(run.isGivenUp).toBe(true);
  expect(second.signal.aborted).toBe(true);
  expect(run.start()).toBeUndefined();
});

test("a sample that comes back aborted although nobody ended it is replaced, or the group would wait for ever", () => {
  const { run, start } = groupOf({ groupSize: 1, extraSamples: 0, maxFailures: 1 });
  run.finish(trajectoryOf(start().task, aborted));
  run.finish(trajectoryOf(start().task, completed));
  expect(run.group().trajectories.map(({ sampleIndex }) => sampleIndex)).toEqual([1]);
});

test("an aborted group starts nothing, ends what runs and takes no results", () => {
  const { run, start } = groupOf({ groupSize: 2, extraSamples: 0, maxFailures: 1 });
  const { task, signal } = start();
  run.abort();
  expect([signal.aborted, run.start(), run.isGivenUp]).toEqual([true, undefined, true]);
  run.finish(trajectoryOf(task, completed));
  expect(run.group().trajectories).toEqual([]);
});

test("a group waits for its greedy trajectory, which is replaced when it fails, and takes no further samples meanwhile", () => {
  const { run, start } = groupOf({ groupSize: 1, extraSamples: 1, maxFailures: 1, hasGreedy: true });
  const [greedy, sample] = [start(), start()];
  expect([greedy, sample].map(({ task }) => task.isGreedy)).toEqual([true, false]);
  run.finish(trajectoryOf(sample.task, completed));
  expect(run.isComplete).toBe(false);
  // The extra sample has not started and is no longer needed.
  expect(run.start()).toBeUndefined();
  run.finish(trajectoryOf(greedy.task, failed));
  const again = start();
  expect(again.task).toMatchObject({ isGreedy: true, sampleIndex: 3 });
  run.finish(trajectoryOf(again.task, completed));
  expect(run.isComplete).toBe(true);
  const { trajectories, greedy: baseline } = run.group();
  expect(trajectories.map(({ sampleIndex }) => sampleIndex)).toEqual([1]);
  expect(baseline?.sampleIndex).toBe(3);
});

test("seeds depend on the run's seed and the group's index, and on nothing else", () => {
  const seeds = (seed: number, index: number) => {
    const run = new GroupRun({ index, domain: 0, prompt: promptOf(0) }, sizes, seed, () => 0);
    return [run.start()!.task.seed, run.start()!.task.seed];
  };
  const sizes = { groupSize: 2, extraSamples: 0, maxFailures: 0 };
  expect(seeds(1, 4)).toEqual(seeds(1, 4));
  expect(new Set([...seeds(1, 4), ...seeds(1, 5), ...seeds(2, 4)]).size).toBe(6);
});

function groupOf(sizes: GroupSizes) {
  let timeMs = 0;
  const run = new GroupRun({ index: 4, domain: 0, prompt: promptOf(0) }, sizes, 1, () => timeMs);
  const start = () => run.start()!;
  const setTime = (ms: number) => {
    timeMs = ms;
  };
  return { run, start, setTime };
}

function trajectoryOf({ queuedAtMs, ...task }: SampleTask, end: TrajectoryEnd): Trajectory {
  return {
    ...task,
    turns: [],
    end,
    reward: { total: 0, score: 0, parts: {} },
    metrics: {},
    timings: { startedMs: queuedAtMs, queuedMs: 0, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
  };
}
