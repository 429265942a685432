import fc from "fast-check";
import { expect, test } from "vitest";
import { completed, episodes, failed, numbered, schedulerOf, settle } from "../../test/rollout/scripted-episodes.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { Trajectory, TrajectoryEnd } from "../flow/trajectory.ts";
import { Random } from "../random/random.ts";
import { admitByStaleness, admitWanted } from "./admission.ts";
import type { EpisodeTask } from "./episode.ts";
import { dropEqualRewards } from "./group-filter.ts";
import type { Rollout } from "./rollout-report.ts";

const signal = new AbortController().signal;
const idsOf = ({ groups }: Rollout) => groups.map(({ prompt }) => prompt.id);

test("take delivers the asked number of groups in the order of their prompts, whatever ends first", async () => {
  const scheduler = schedulerOf({ groupSize: 2, maxInFlight: 64 }, { runEpisode: episodes({ waits: () => 5 }) });
  const { groups, metrics } = await scheduler.take(3, signal);
  expect(groups.map(({ prompt }) => prompt.id)).toEqual(["p0", "p1", "p2"]);
  expect(groups.map(({ trajectories }) => trajectories.map(({ id }) => id))).toEqual([
    ["0-0", "0-1"],
    ["1-0", "1-1"],
    ["2-0", "2-1"],
  ]);
  expect(metrics).toMatchObject({ "rollout/groups": 3, "rollout/trajectories": 6 });
  await scheduler.close();
});

test("no more samples than allowed run at once", async () => {
  const runner = episodes({ waits: () => 3 });
  const scheduler = schedulerOf({ groupSize: 4, maxInFlight: 5 }, { runEpisode: runner });
  await scheduler.take(8, signal);
  expect(runner.mostAtOnce()).toBe(5);
  await scheduler.close();
});

test("groups with equal rewards are dropped and refilled until the asked number differs", async () => {
  // Prompts p0, p3, p6, ... give every sample the same reward.
  const reward = (task: EpisodeTask) => (Number(task.prompt.id.slice(1)) % 3 === 0 ? 1 : task.sampleIndex);
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 64, filter: dropEqualRewards },
    { runEpisode: episodes({ reward }) },
  );
  const { groups, report } = await scheduler.take(4, signal);
  expect(groups.map(({ prompt }) => prompt.id)).toEqual(["p1", "p2", "p4", "p5"]);
  expect(report.filtered.map(({ group, reason }) => [group.prompt.id, reason])).toEqual([
    ["p0", "equal-rewards"],
    ["p3", "equal-rewards"],
  ]);
  await scheduler.close();
});

test("a filter that drops everything ends in an error that says what to change", async () => {
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 8, filter: dropEqualRewards, maxFilteredFactor: 3 },
    { runEpisode: episodes({}) },
  );
  await expect(scheduler.take(2, signal)).rejects.toThrow(/7 groups were dropped.*too easy or too hard/s);
  await scheduler.close();
});

test("a failed sample is replaced, and the group is delivered whole with a report of the failure", async () => {
  const end = (task: EpisodeTask) => (task.id === "1-0" ? failed("boom") : completed);
  const scheduler = schedulerOf({ groupSize: 2, maxInFlight: 8 }, { runEpisode: episodes({ end }) });
  const { groups, report } = await scheduler.take(2, signal);
  expect(groups[1]?.trajectories.map(({ id }) => id)).toEqual(["1-1", "1-2"]);
  expect(report.failed.map(({ id }) => id)).toEqual(["1-0"]);
  await scheduler.close();
});

test("a group whose samples keep failing is given up and another prompt takes its place", async () => {
  const end = (task: EpisodeTask) => (task.prompt.id === "p0" ? failed("boom") : completed);
  const scheduler = schedulerOf({ groupSize: 2, maxInFlight: 8, maxFailures: 3 }, { runEpisode: episodes({ end }) });
  const { groups, report } = await scheduler.take(2, signal);
  expect(groups.map(({ prompt }) => prompt.id)).toEqual(["p1", "p2"]);
  expect(report).toMatchObject({ numGivenUp: 1 });
  expect(report.failed).toHaveLength(4);
  await scheduler.close();
});

test("when everything fails, take rejects with the last reason instead of trying for ever", async () => {
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 8 },
    { runEpisode: episodes({ end: () => failed("no sandbox") }) },
  );
  await expect(scheduler.take(2, signal)).rejects.toThrow(
    "The first 8 samples failed alike, the last one with: no sandbox. Nothing can be learned",
  );
  await scheduler.close();
});

test("failures that differ, or that some prompts alone have, prove nothing: they are counted up to 256", async () => {
  const words = ["a", "b", "c", "d"];
  const differing = episodes({ end: ({ sampleIndex }) => failed(`no ${words[sampleIndex % 4]}`) });
  const scheduler = schedulerOf({ groupSize: 2, maxInFlight: 8 }, { runEpisode: differing });
  await expect(scheduler.take(2, signal)).rejects.toThrow(/last 256 samples all failed.*no [a-d]/s);
  await scheduler.close();

  // Rows 0 and 1 fail at once, six times each, before any other has ended.
  const isBad = ({ groupId }: EpisodeTask) => Number(groupId) < 2;
  const someBad = episodes({
    end: (task) => (isBad(task) ? failed("bad row") : completed),
    waits: (task) => (isBad(task) ? 0 : 50),
  });
  const other = schedulerOf({ groupSize: 5, maxInFlight: 40 }, { runEpisode: someBad });
  const { groups, report } = await other.take(6, signal);
  expect([groups.length, report.failed.length, report.numGivenUp]).toEqual([6, 12, 2]);
  await other.close();
});

test("of a group with extra samples the first to end well are taken and the others are aborted", async () => {
  const waits = (task: EpisodeTask) => (task.sampleIndex === 0 ? 10_000 : 1);
  const scheduler = schedulerOf({ groupSize: 2, extraSamples: 1, maxInFlight: 8 }, { runEpisode: episodes({ waits }) });
  const { groups } = await scheduler.take(1, signal);
  expect(groups[0]?.trajectories.map(({ sampleIndex }) => sampleIndex)).toEqual([1, 2]);
  await scheduler.close();
});

test("groups cut off when enough were there start again from their prompts in the next take", async () => {
  const waits = (task: EpisodeTask) => (task.id === "0-0" ? 10_000 : 1);
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 8, admission: admitWanted(1) },
    { runEpisode: episodes({ waits }) },
  );
  const first = await scheduler.take(2, signal);
  expect(first.groups.map(({ prompt }) => prompt.id)).toEqual(["p1", "p2"]);
  const second = await scheduler.take(2, signal);
  expect(second.groups[0]?.prompt.id).toBe("p0");
  expect(second.report.numAborted).toBe(1);
  await scheduler.close();
});

test("delivered groups keep the shares of their domains although one domain is filtered more", async () => {
  const reward = (task: EpisodeTask) => (task.prompt.domain === "math" && task.seed % 2 === 0 ? 1 : task.sampleIndex);
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 64, filter: dropEqualRewards, maxFilteredFactor: 100 },
    {
      runEpisode: episodes({ reward }),
      sources: [
        { share: 40, source: numbered("math") },
        { share: 30, source: numbered("code") },
        { share: 30, source: numbered("general") },
      ],
    },
  );
  const counts = new Map<string, number>();
  for (let i = 0; i < 10; i++) {
    const { groups } = await scheduler.take(7, signal);
    expect(groups).toHaveLength(7);
    for (const { prompt } of groups) counts.set(prompt.domain, (counts.get(prompt.domain) ?? 0) + 1);
  }
  expect(Object.fromEntries(counts)).toEqual({ math: 28, code: 21, general: 21 });
  await scheduler.close();
});

test("asynchronous rollout runs ahead by the allowed staleness and no further", async () => {
  const runner = episodes({});
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 64, admission: admitByStaleness(1, 4), rest: "continue" },
    { runEpisode: runner },
  );
  await scheduler.take(4, signal);
  await settle();
  // Version 0, staleness 1, batches of 4: (1 + 0 + 1) * 4.
  expect(runner.numStarted()).toBe(8);
  scheduler.setProgress(1);
  await settle();
  expect(runner.numStarted()).toBe(12);
  await scheduler.close();
});

test("groups that became too old while they waited are counted, and their prompts start again", async () => {
  let version = 0;
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 64, admission: admitByStaleness(3, 2), rest: "continue", maxStaleness: 1 },
    { runEpisode: episodes({ version: () => version }) },
  );
  await scheduler.take(2, signal);
  await settle();
  version = 2;
  scheduler.setProgress(version);
  const { groups, report } = await scheduler.take(2, signal);
  // (3 + 0 + 1) * 2 groups were allowed, 2 of them were taken in time.
  expect(report.numStale).toBe(6);
  expect(groups.map(({ prompt }) => prompt.id)).toEqual(["p2", "p3"]);
  await scheduler.close();
});

test("a group whose first tokens are too old by now is ended while it runs, and its prompt starts again", async () => {
  let version = 0;
  const told: string[] = [];
  const quick = episodes({ version: () => version });
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 64, admission: admitByStaleness(1, 2), rest: "continue", maxStaleness: 1 },
    {
      // The second sample of p2 has asked for a reply under version 0 and never ends by itself.
      runEpisode: async (task, control) => {
        control.onStage?.("generating");
        if (task.groupId === "2" && task.sampleIndex === 1) {
          await new Promise((resolve) => control.signal.addEventListener("abort", resolve));
          return { ...(await quick(task, control)), end: { kind: "aborted" } };
        }
        return quick(task, control);
      },
      onEvent: ({ sampleId, stage }) => told.push(`${sampleId} ${stage}`),
    },
  );
  expect(idsOf(await scheduler.take(2, signal))).toEqual(["p0", "p1"]);
  await settle();
  // One step is not too many.
  version = 1;
  scheduler.setProgress(1);
  expect(idsOf(await scheduler.take(2, signal))).toEqual(["p3", "p4"]);
  version = 2;
  scheduler.setProgress(2);
  const { groups, report } = await scheduler.take(3, signal);
  expect(groups.map(({ prompt }) => prompt.id)).toContain("p2");
  expect(report).toMatchObject({ numStale: 1, numAborted: 1 });
  expect(told).toContain("2-0 stale");
  expect(told).toContain("2-1 aborted");
  await scheduler.close();
});

test("between two publications ages are counted in training steps", async () => {
  const runner = episodes({ version: () => 4 });
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 64, admission: admitByStaleness(2, 2), rest: "continue", maxStaleness: 2 },
    { runEpisode: runner },
  );
  scheduler.setProgress(4);
  await settle();
  // Weights of step 4 may serve steps 5, 6 and 7; what earlier steps took is not counted here.
  expect(runner.numStarted()).toBe((2 + 4 + 1) * 2);
  scheduler.setProgress(6, 4);
  const { metrics } = await scheduler.take(2, signal);
  expect(metrics).toMatchObject({ "rollout/staleness": 2, "rollout/staleness_max": 2, "rollout/stale_groups": 0 });
  expect(() => scheduler.setProgress(7, 4)).toThrow(
    /drawn with the weights of step 4, 7 steps are done, and maxStaleness is 2. Publish weights more often, or raise maxStaleness to 3/,
  );
  await scheduler.close();
});

test("sources are told what came of their prompts, filtered ones too, when a batch is delivered", async () => {
  const told: string[] = [];
  const source = {
    ...numbered("p"),
    record: (id: string, rewards: readonly number[]) => void told.push(`${id} ${rewards}`),
  };
  const reward = ({ prompt, sampleIndex }: EpisodeTask) => (prompt.id === "p1" ? 1 : sampleIndex);
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 64, filter: dropEqualRewards },
    { runEpisode: episodes({ reward, waits: ({ seed }) => seed % 5 }), sources: [{ share: 1, source }] },
  );
  await scheduler.take(2, signal);
  expect(told).toEqual(["p0 0,1", "p1 1,1", "p2 0,1"]);
  await scheduler.close();
});

test("an abort rejects take and leaves nothing running", async () => {
  const controller = new AbortController();
  const runner = episodes({ waits: () => 100_000 });
  const scheduler = schedulerOf({ groupSize: 2, maxInFlight: 8 }, { runEpisode: runner });
  const taking = scheduler.take(2, controller.signal);
  await settle();
  controller.abort(new Error("stop"));
  await expect(taking).rejects.toThrow("stop");
  await scheduler.close();
  expect(runner.numRunning()).toBe(0);
});

test("a source that ends gives what there is", async () => {
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 8 },
    { runEpisode: episodes({}), sources: [{ share: 1, source: numbered("p", 3) }] },
  );
  expect((await scheduler.take(5, signal)).groups).toHaveLength(3);
  expect((await scheduler.take(5, signal)).groups).toHaveLength(0);
  await scheduler.close();
});

test("a scheduler restored at any point delivers what the other would have", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 1, max: 3 }), async (numBefore, perTake) => {
      const make = () =>
        schedulerOf({ groupSize: 2, maxInFlight: 8 }, { runEpisode: episodes({ waits: (task) => task.seed % 3 }) });
      const whole = make();
      for (let i = 0; i < numBefore; i++) await whole.take(perTake, signal);
      const saved = JSON.parse(JSON.stringify(whole.position())) as JsonValue;
      const resumed = make();
      await resumed.restore(saved);
      const [expected, actual] = await Promise.all([whole.take(perTake, signal), resumed.take(perTake, signal)]);
      expect(actual.groups.map(seeds)).toEqual(expected.groups.map(seeds));
      await Promise.all([whole.close(), resumed.close()]);
    }),
    { numRuns: 20 },
  );
});

test("with faults of every kind the right number of good samples comes out and the rest is reported", async () => {
  const random = new Random(7);
  const kinds = new Map<string, string>();
  const end = (task: EpisodeTask): TrajectoryEnd => {
    const chance = random.uniform();
    const kind = chance < 0.1 ? "environment" : chance < 0.2 ? "reward" : chance < 0.3 ? "generation" : "good";
    kinds.set(task.id, kind);
    return kind === "good" ? completed : { ...failed("fault"), stage: kind as "environment" };
  };
  const scheduler = schedulerOf(
    { groupSize: 4, maxInFlight: 32, maxFailures: 8 },
    { runEpisode: episodes({ end, waits: () => random.integer(3) }) },
  );
  const { groups, report } = await scheduler.take(50, signal);
  expect(groups).toHaveLength(50);
  expect(groups.every(({ trajectories }) => trajectories.length === 4)).toBe(true);
  expect(groups.flatMap(({ trajectories }) => trajectories).every(({ end: { kind } }) => kind === "completed")).toBe(
    true,
  );
  expect(report.failed).toHaveLength([...kinds.values()].filter((kind) => kind !== "good").length);
  await scheduler.close();
});

test("a new version right before take does not keep samples from starting", async () => {
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({}) });
  scheduler.setProgress(3);
  expect((await scheduler.take(2, signal)).groups).toHaveLength(2);
  await scheduler.close();
});

function seeds({ trajectories }: { trajectories: readonly Trajectory[] }): readonly number[] {
  return trajectories.map(({ seed }) => seed);
}
