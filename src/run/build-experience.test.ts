import { expect, test } from "vitest";
import { groupOf } from "../../test/experience/groups.ts";
import type { TrajectoryGroup } from "../flow/trajectory.ts";
import { buildExperience } from "./build-experience.ts";
import { type RunInput, runConfig } from "./run-config.ts";

function experienceOf(replay: RunInput["replay"]) {
  const config = runConfig.parse({
    model: { preset: "nano" },
    training: { optimizer: { lr: 1e-3 } },
    ...(replay && { replay }),
  });
  return buildExperience(config);
}

/** Six groups of two; the first token of each sample says which step and group it is from. */
function groupsOf(step: number): TrajectoryGroup[] {
  return Array.from({ length: 6 }, (_, group) =>
    groupOf(
      `${step}-${group}`,
      [0, group].map((score) => ({ turns: [{ promptIds: [10 * step + group], replyIds: [1] }], score })),
    ),
  );
}

test("without replay a batch is what was sampled", () => {
  const experience = experienceOf(null);
  const { batch, metrics } = experience.build(groupsOf(0), 4);
  expect([batch.samples.length, batch.version, experience.position()]).toEqual([12, 4, null]);
  expect(Object.keys(metrics)).not.toContain("replay/share");
});

test("the first batch has nothing to replay, and later ones replay their share with weights of at most 1 per draw", () => {
  const experience = experienceOf({ ratio: 0.25, halfLife: 100, maxReuse: 99 });
  const first = experience.build(groupsOf(0), 0);
  expect(first.batch.samples).toHaveLength(12);
  expect(first.metrics).toMatchObject({ "replay/share": 0, "replay/trajectories": 12 });
  const { batch, metrics } = experience.build(groupsOf(1), 1);
  const replayed = batch.samples.slice(12);
  // Two draws: one group twice, or two groups.
  expect(replayed.length === 2 || replayed.length === 4).toBe(true);
  expect(batch.samples.slice(0, 12).every(({ weight }) => weight === undefined)).toBe(true);
  for (const { tokenIds, weight, group } of replayed) {
    expect(tokenIds[0]).toBeLessThan(10);
    expect(weight).toBeGreaterThan(0);
    expect(weight).toBeLessThanOrEqual(2);
    expect(group).toBeGreaterThanOrEqual(6);
  }
  expect(metrics["replay/share"]).toBeCloseTo(replayed.length / batch.samples.length);
  expect(metrics).toMatchObject({ "replay/age": 1, "replay/trajectories": 24, "experience/rows": 12 });
});

test("what is restored builds the same batches", () => {
  const replay = { ratio: 0.5, capacity: 30, priority: "reward", maxReuse: 3 } as const;
  const whole = experienceOf(replay);
  const before = experienceOf(replay);
  for (const step of [0, 1, 2]) {
    whole.build(groupsOf(step), step);
    before.build(groupsOf(step), step);
  }
  const after = experienceOf(replay);
  after.restore(JSON.parse(JSON.stringify(before.position())));
  for (const step of [3, 4]) expect(after.build(groupsOf(step), step)).toEqual(whole.build(groupsOf(step), step));
});

test("a batch of replays alone is refused", () => {
  expect(() => experienceOf({ ratio: 1 })).toThrow(/expected number to be <1/);
});

test("groups are replayed by the TD errors that training found, fresh ones and replayed ones alike", () => {
  const config = runConfig.parse({
    model: { preset: "nano" },
    training: { optimizer: { lr: 1e-3 } },
    replay: { priority: "td-error", ratio: 0.5, alpha: 1, halfLife: 1e9, maxReuse: 1e6 },
  });
  const experience = buildExperience(config);
  const train = (step: number, errorOf: (token: number) => number) => {
    const { batch } = experience.build(groupsOf(step), step);
    const tdErrors = Float32Array.from(batch.samples, ({ tokenIds }) => errorOf(tokenIds[0]!));
    experience.onTrained?.({ numUpdates: 1, numSkippedInRow: 0, metrics: {}, tdErrors });
    return batch.samples.slice(12).map(({ tokenIds }) => tokenIds[0]!);
  };
  expect(train(0, (token) => (token === 3 ? 1 : 0))).toEqual([]);
  // Group 3 of step 0 has nearly all of the priority. Now it is learned, and group 5 of step 1 is not.
  expect(new Set(train(1, (token) => (token === 15 ? 1 : 0)))).toEqual(new Set([3]));
  expect(new Set(train(2, () => 0))).toEqual(new Set([15]));
});
