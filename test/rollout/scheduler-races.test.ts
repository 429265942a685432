/** What only timing, broken parts or long runs bring about in the scheduler. */
import { getEventListeners } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PromptSource } from "../../src/data/prompt-source.ts";
import type { JsonValue } from "../../src/flow/prompt.ts";
import { admitByStaleness, admitWanted } from "../../src/rollout/admission.ts";
import type { EpisodeTask, RunEpisode } from "../../src/rollout/episode.ts";
import { dropEqualRewards } from "../../src/rollout/group-filter.ts";
import type { Rollout } from "../../src/rollout/rollout-report.ts";
import { completed, episodes, failed, numbered, schedulerOf, settle } from "./scripted-episodes.ts";

const signal = new AbortController().signal;
const promptIds = ({ groups }: Rollout) => groups.map(({ prompt }) => prompt.id);

test("an episode that rejects, or gives what is no trajectory of its task, is a failed sample", async () => {
  const good = episodes({});
  const runEpisode: RunEpisode = async (task, control) => {
    if (task.sampleIndex === 0) throw new TypeError("agent broke");
    if (task.sampleIndex === 1) return undefined as never;
    const trajectory = await good(task, control);
    return task.sampleIndex === 2 ? { ...trajectory, id: "another" } : trajectory;
  };
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 1, maxFailures: 3 }, { runEpisode });
  const { groups, report } = await scheduler.take(1, signal);
  expect(groups[0]?.trajectories.map(({ id }) => id)).toEqual(["0-3"]);
  expect(report.failed.map(({ end }) => end.kind === "failed" && end.error.message)).toEqual([
    "Episode 0-0 failed: agent broke",
    expect.stringMatching(/^Episode 0-1 failed: runEpisode must give a trajectory .* got id undefined for task 0-1/),
    expect.stringMatching(/got id another for task 0-2/),
  ]);
  await scheduler.close();
});

test("a filter that throws ends the take that waits, or the next one", async () => {
  let isBroken = true;
  const filter = () => {
    if (isBroken) throw new Error("filter broke");
    return null;
  };
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 4, filter, admission: admitByStaleness(1, 1), rest: "continue" },
    { runEpisode: episodes({}) },
  );
  await expect(scheduler.take(1, signal)).rejects.toThrow("filter broke");
  await settle();
  scheduler.setProgress(1);
  await settle();
  isBroken = false;
  await expect(scheduler.take(1, signal)).rejects.toThrow("filter broke");
  expect((await scheduler.take(1, signal)).groups).toHaveLength(1);
  await scheduler.close();
});

test("a source that fails ends the take, and the next one tries again", async () => {
  const source = numbered("p");
  let isBroken = true;
  const next: PromptSource["next"] = (count) => (isBroken ? Promise.reject(new Error("no disk")) : source.next(count));
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 4 },
    { runEpisode: episodes({}), sources: [{ share: 1, source: { ...source, next } }] },
  );
  await expect(scheduler.take(1, signal)).rejects.toThrow("no disk");
  isBroken = false;
  expect(promptIds(await scheduler.take(1, signal))).toEqual(["p0"]);
  await scheduler.close();
});

test("a prompt that arrives after the take is over starts nothing, and is the first of the next take", async () => {
  const { source, deliver } = slowSource();
  const runner = episodes({});
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 8, admission: admitWanted(1) },
    { runEpisode: runner, sources: [{ share: 1, source }] },
  );
  const taking = scheduler.take(1, signal);
  await deliver();
  expect(promptIds(await taking)).toEqual(["p0"]);
  await deliver();
  await settle();
  expect(runner.numStarted()).toBe(1);
  const second = scheduler.take(1, signal);
  await settle();
  expect(promptIds(await second)).toEqual(["p1"]);
  await deliver();
  await scheduler.close();
});

test("a position saved while a source is being read loses no prompt", async () => {
  const { source, deliver } = slowSource();
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 8 },
    { runEpisode: episodes({}), sources: [{ share: 1, source }] },
  );
  const taking = scheduler.take(1, signal);
  await settle();
  const saved = JSON.parse(JSON.stringify(scheduler.position())) as JsonValue;
  await deliver();
  const resumed = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({}) });
  await resumed.restore(saved);
  const [here, there] = await Promise.all([taking, resumed.take(1, signal)]);
  expect(promptIds(there)).toEqual(promptIds(here));
  await Promise.all([scheduler.close(), resumed.close()]);
});

test("an asynchronous run restored at any moment delivers every prompt exactly once", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 0, max: 6 }),
      async (numTakes, maxStaleness, numTurns) => {
        const make = () =>
          schedulerOf(
            { groupSize: 2, maxInFlight: 7, admission: admitByStaleness(maxStaleness, 2), rest: "continue" },
            { runEpisode: episodes({ waits: ({ seed }) => seed % 4 }) },
          );
        const before = make();
        const delivered: string[] = [];
        for (let version = 0; version < numTakes; version++) {
          before.setProgress(version);
          delivered.push(...promptIds(await before.take(2, signal)));
        }
        for (let i = 0; i < numTurns; i++) await new Promise((resolve) => setImmediate(resolve));
        const saved = JSON.parse(JSON.stringify(before.position())) as JsonValue;
        await before.close();
        const after = make();
        await after.restore(saved);
        const first = Array.from({ length: 2 * numTakes + 4 }, (_, i) => `p${i}`);
        const isMissing = () => first.some((id) => !delivered.includes(id));
        // Others may run ahead of a slow group, but not for ever: one that is lost never comes.
        for (let version = numTakes; version < numTakes + 8 || (isMissing() && version < 200); version++) {
          after.setProgress(version);
          delivered.push(...promptIds(await after.take(2, signal)));
        }
        await after.close();
        expect(new Set(delivered).size).toBe(delivered.length);
        expect(isMissing()).toBe(false);
      },
    ),
    { numRuns: 25 },
  );
});

test("prompts of groups that close cut off are in the position", async () => {
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({ waits: () => 10_000 }) });
  const taking = scheduler.take(2, signal);
  await settle();
  await Promise.all([expect(taking).rejects.toMatchObject({ code: "CLOSED" }), scheduler.close()]);
  await expect(scheduler.take(1, signal)).rejects.toMatchObject({ code: "CLOSED" });
  const resumed = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({}) });
  await resumed.restore(scheduler.position());
  expect(promptIds(await resumed.take(3, signal))).toEqual(["p0", "p1", "p2"]);
  await resumed.close();
});

test("a position of another number of domains is refused", async () => {
  const two = [numbered("a"), numbered("b")].map((source) => ({ share: 1, source }));
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({}), sources: two });
  const other = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({}) });
  await expect(other.restore(scheduler.position())).rejects.toThrow(/saved run has 2 domains .* this one has 1/);
});

test("a take that was aborted does not count for the shares of domains", async () => {
  const sources = [numbered("a"), numbered("b")].map((source, i) => ({ share: i === 0 ? 3 : 1, source }));
  const waits = ({ seed }: EpisodeTask) => (isSlow ? 10_000 : seed % 3);
  let isSlow = true;
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 8 }, { runEpisode: episodes({ waits }), sources });
  const before = JSON.stringify((scheduler.position() as { owed: unknown }).owed);
  const controller = new AbortController();
  const taking = scheduler.take(3, controller.signal);
  await settle();
  controller.abort(new Error("stop"));
  await expect(taking).rejects.toThrow("stop");
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  expect(JSON.stringify((scheduler.position() as { owed: unknown }).owed)).toBe(before);
  isSlow = false;
  expect(promptIds(await scheduler.take(4, signal)).toSorted()).toEqual(["a0", "a1", "a2", "b0"]);
  await scheduler.close();
});

test.each([
  ["what is asked for", admitWanted(6), "restart" as const],
  ["staleness", admitByStaleness(1, 2), "continue" as const],
])(
  "a surplus of one domain does not keep the other from starting, with admission by %s",
  async (_, admission, rest) => {
    // Domain b is slow at first, so that a is ahead.
    const waits = ({ prompt }: EpisodeTask) => (prompt.domain === "b" ? 15 : 0);
    const sources = [numbered("a"), numbered("b")].map((source, i) => ({ share: i === 0 ? 3 : 1, source }));
    const scheduler = schedulerOf(
      { groupSize: 1, maxInFlight: 16, admission, rest },
      { runEpisode: episodes({ waits }), sources },
    );
    const domains: string[] = [];
    for (let version = 0; version < 8; version++) {
      scheduler.setProgress(version);
      const { groups } = await scheduler.take(2, signal);
      domains.push(...groups.map(({ prompt }) => prompt.domain));
    }
    expect(domains.filter((domain) => domain === "b")).toHaveLength(4);
    await scheduler.close();
  },
);

test("what somebody waits for starts although the admission gives no room", async () => {
  const admission = { room: () => 0 };
  const scheduler = schedulerOf({ groupSize: 1, maxInFlight: 16, admission }, { runEpisode: episodes({}) });
  expect(promptIds(await scheduler.take(3, signal))).toEqual(["p0", "p1", "p2"]);
  await scheduler.close();
});

test("a long asynchronous run keeps nothing of what it has delivered, dropped or seen fail", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  let version = 0;
  const scheduler = schedulerOf(
    {
      ...{ groupSize: 2, maxInFlight: 16, rest: "continue", maxStaleness: 1, maxFilteredFactor: 100 },
      ...{ admission: admitByStaleness(2, 4), filter: ({ id }) => (Number(id) % 5 === 0 ? "fifth" : null) },
    },
    {
      runEpisode: episodes({
        end: ({ seed }) => (seed % 7 === 0 ? failed("seventh") : completed),
        version: () => version,
      }),
    },
  );
  const seen: WeakRef<object>[] = [];
  for (; version < 150; version++) {
    scheduler.setProgress(version);
    const { groups, report } = await scheduler.take(4, signal);
    seen.push(...groups.flatMap(({ trajectories }) => trajectories.map((one) => new WeakRef(one))));
    seen.push(...report.failed.map((one) => new WeakRef(one)));
    seen.push(...report.filtered.map(({ group }) => new WeakRef(group)));
  }
  await settle();
  collectGarbage();
  expect(seen.length).toBeGreaterThan(1400);
  expect(seen.filter((one) => one.deref() !== undefined).length).toBeLessThan(40);
  await scheduler.close();
});

test("a domain with share 0 never starts, also when the others have ended", async () => {
  const runner = episodes({});
  const sources = [
    { share: 0, source: numbered("never") },
    { share: 1, source: numbered("p", 2) },
  ];
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 8, admission: admitByStaleness(1, 2), rest: "continue" },
    { runEpisode: runner, sources },
  );
  expect(promptIds(await scheduler.take(3, signal))).toEqual(["p0", "p1"]);
  expect(runner.numStarted()).toBe(2);
  await scheduler.close();
});

test("with two domains and a filter, what is delivered does not depend on timing", async () => {
  const reward = ({ seed, sampleIndex }: EpisodeTask) => (seed % 3 === 0 ? 0 : sampleIndex);
  const takeAll = async (waits: (task: EpisodeTask) => number) => {
    const sources = [numbered("a"), numbered("b")].map((source) => ({ share: 1, source }));
    const scheduler = schedulerOf(
      { groupSize: 2, maxInFlight: 64, filter: dropEqualRewards },
      { runEpisode: episodes({ reward, waits }), sources },
    );
    const rollouts = [await scheduler.take(6, signal), await scheduler.take(6, signal)];
    await scheduler.close();
    return rollouts.flatMap(({ groups }) => groups.map(({ trajectories }) => trajectories.map(({ seed }) => seed)));
  };
  const one = await takeAll(({ prompt }) => (prompt.domain === "a" ? 8 : 0));
  const other = await takeAll(({ prompt }) => (prompt.domain === "a" ? 0 : 8));
  expect(one).toHaveLength(12);
  expect(one).toEqual(other);
});

test("after a starved take, and after one in which everything failed, the next starts with a clean count", async () => {
  let mood: "dull" | "broken" | "good" = "dull";
  const runEpisode = episodes({
    end: () => (mood === "broken" ? failed("down") : completed),
    reward: ({ sampleIndex }) => (mood === "dull" ? 1 : sampleIndex),
  });
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 8, filter: dropEqualRewards, maxFilteredFactor: 2 },
    { runEpisode },
  );
  await expect(scheduler.take(1, signal)).rejects.toMatchObject({ code: "ROLLOUT_STARVED", details: { count: 3 } });
  mood = "broken";
  await expect(scheduler.take(1, signal)).rejects.toMatchObject({ code: "ROLLOUT_FAILING", details: { count: 256 } });
  mood = "good";
  expect((await scheduler.take(1, signal)).groups).toHaveLength(1);
  await scheduler.close();
});

test("an asynchronous run that finds nothing useful stops sampling between takes, and says so in the next", async () => {
  const runner = episodes({});
  let isDull = false;
  const scheduler = schedulerOf(
    {
      ...{ groupSize: 1, maxInFlight: 8, maxFilteredFactor: 3, rest: "continue" as const },
      ...{ admission: admitByStaleness(1, 2), filter: () => (isDull ? "dull" : null) },
    },
    { runEpisode: runner },
  );
  await scheduler.take(2, signal);
  isDull = true;
  scheduler.setProgress(1);
  await settle();
  const numStarted = runner.numStarted();
  await settle();
  expect(runner.numStarted()).toBe(numStarted);
  expect(numStarted).toBeLessThan(30);
  await expect(scheduler.take(2, signal)).rejects.toMatchObject({ code: "ROLLOUT_STARVED" });
  await scheduler.close();
});

test("groups dropped as too old make room for as many new ones, and do not count as delivered", async () => {
  let version = 0;
  const runner = episodes({ version: () => version });
  const scheduler = schedulerOf(
    { groupSize: 1, maxInFlight: 64, admission: admitByStaleness(2, 3), rest: "continue", maxStaleness: 0 },
    { runEpisode: runner },
  );
  await scheduler.take(3, signal);
  await settle();
  // (2 + 0 + 1) * 3 in all: 3 delivered, 6 ready.
  expect(runner.numStarted()).toBe(9);
  version = 1;
  scheduler.setProgress(1);
  await settle();
  // The 6 are dropped. (2 + 1 + 1) * 3 = 12 may be accepted or running, 3 are delivered: 9 more.
  expect(runner.numStarted()).toBe(18);
  expect((scheduler.position() as { numDelivered: number }).numDelivered).toBe(3);
  const { report } = await scheduler.take(3, signal);
  expect(report.numStale).toBe(6);
  await scheduler.close();
});

test("the life of every sample is told from queued to its end", async () => {
  const lives = new Map<string, string[]>();
  const reward = ({ prompt, sampleIndex }: EpisodeTask) => (prompt.id === "p0" ? 0 : sampleIndex);
  const end = ({ id }: EpisodeTask) => (id === "1-0" ? failed("no") : completed);
  const scheduler = schedulerOf(
    { groupSize: 2, maxInFlight: 8, filter: dropEqualRewards },
    {
      runEpisode: episodes({ reward, end }),
      onEvent: ({ sampleId, stage }) => lives.set(sampleId, [...(lives.get(sampleId) ?? []), stage]),
    },
  );
  await scheduler.take(1, signal);
  await scheduler.close();
  expect(Object.fromEntries(lives)).toEqual({
    "0-0": ["queued", "complete", "filtered"],
    "0-1": ["queued", "complete", "filtered"],
    "1-0": ["queued", "failed"],
    "1-1": ["queued", "complete", "delivered"],
    "1-2": ["queued", "complete", "delivered"],
  });
});

test("samples that never start because their group is not needed are told of too", async () => {
  const lives = new Map<string, string[]>();
  const scheduler = schedulerOf(
    { groupSize: 1, extraSamples: 2, maxInFlight: 1 },
    {
      runEpisode: episodes({}),
      onEvent: ({ sampleId, stage }) => lives.set(sampleId, [...(lives.get(sampleId) ?? []), stage]),
    },
  );
  await scheduler.take(1, signal);
  await scheduler.close();
  expect(Object.fromEntries(lives)).toEqual({
    "0-0": ["queued", "complete", "delivered"],
    "0-1": ["queued", "aborted"],
    "0-2": ["queued", "aborted"],
  });
});

test.each([0, -1, 1.5, Number.NaN])("a number of groups, a group size and a room of %s are refused", async (count) => {
  const options = { groupSize: 1, maxInFlight: 1 };
  for (const key of ["groupSize", "maxInFlight"]) {
    expect(() => schedulerOf({ ...options, [key]: count }, { runEpisode: episodes({}) })).toThrow(
      `${key} must be a whole number above 0: got ${count}.`,
    );
  }
  const scheduler = schedulerOf(options, { runEpisode: episodes({}) });
  await expect(scheduler.take(count, signal)).rejects.toThrow(
    `numGroups must be a whole number above 0: got ${count}.`,
  );
});

/** Prompts that come when they are told to. */
function slowSource() {
  const source = numbered("p");
  const waiting: (() => void)[] = [];
  const next: PromptSource["next"] = async (count) => {
    const prompts = await source.next(count);
    await new Promise<void>((resolve) => waiting.push(resolve));
    return prompts;
  };
  const deliver = async () => {
    await settle();
    waiting.shift()?.();
  };
  return { source: { ...source, next }, deliver };
}
