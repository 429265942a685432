import fc from "fast-check";
import { expect, test } from "vitest";
import { joinReplays } from "../experience/join-replays.ts";
import { buildSamples } from "../experience/sample-builder.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryGroup, Turn } from "../flow/trajectory.ts";
import type { LoopParts } from "../loops/loop-parts.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import { silentTracker } from "../tracking/run-tracker.ts";
import { type RecordedRollout, type TrajectoryRecord, trajectoryRecords } from "../tracking/trajectory-record.ts";
import type { StepOptions, StepReport } from "../training/token-trainer.ts";
import { recordedParts } from "./recorded-parts.ts";

const completed: TrajectoryEnd = { kind: "completed" };

test("turns of one sample get their own parts of its numbers, and the trajectory the mean advantage of what counts", async () => {
  const turns = [turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 9], [5])];
  const { samples } = buildSamples([group("g", [trajectory("g", turns)])]);
  expect(samples).toHaveLength(1);
  const numbersOf = (): Numbers => ({
    policyLogprobs: Float32Array.of(0, 0, -0.12346, -2, 0, -3),
    entropies: Float32Array.of(0, 0, 1.5, 0.25, 0, 0.125),
    advantages: Float32Array.of(0, 0, 1, 2, 0, 9),
    lossMask: Uint8Array.of(0, 0, 1, 1, 0, 0),
  });
  const [record] = await recordsOf([group("g", [trajectory("g", turns)])], samples, { numbersOf });
  expect(record?.turns).toMatchObject([
    { policyLogprobs: [-0.1235, -2], entropies: [1.5, 0.25], advantages: [1, 2], lossMask: [true, true] },
    { policyLogprobs: [-3], entropies: [0.125], advantages: [9], lossMask: [false] },
  ]);
  expect(record?.advantage).toBe(1.5);
});

test("twins, forks and repeated states go to the turns that they were made of", async () => {
  // Both trajectories play the same tokens twice; only their places tell them apart.
  const repeated = () => [turn([1, 2], [3]), turn([1, 2], [3])];
  const groups = [group("g", [trajectory("g", repeated()), trajectory("g", repeated())])];
  const { samples } = buildSamples(groups);
  expect(samples.map((sample) => [sample.trajectory, sample.turn])).toEqual([
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ]);
  const records = await recordsOf(groups, samples);
  expect(records.map(({ turns }) => turns.map(({ advantages }) => advantages))).toEqual([
    [[1002], [2002]],
    [[3002], [4002]],
  ]);
});

test("what failed, was filtered, is beyond the recorded groups, or too long to be trained on has no numbers", async () => {
  const failed = { kind: "failed", stage: "environment", error: new Error("down") as never } as const;
  const groups = [
    group("a", [trajectory("a", [turn([1], [2])], failed), trajectory("a", [turn([1], [3])])]),
    group("b", [trajectory("b", [turn([1, 1, 1, 1], [4])]), trajectory("b", [turn([1], [5])])]),
    group("c", [trajectory("c", [turn([1], [6])])]),
  ];
  const filtered = [{ group: group("f", [trajectory("f", [turn([1], [7])])]), reason: "equal-rewards" }];
  const { samples } = buildSamples(groups, { maxTokens: 4 });
  const records = await recordsOf(groups, samples, { filtered, numGroups: 2 });
  expect(records.map(({ groupId, fate, advantage }) => [groupId, fate, advantage])).toEqual([
    ["a", "delivered", undefined],
    ["a", "delivered", 1001],
    ["b", "delivered", undefined],
    ["b", "delivered", 2001],
    ["f", "filtered", undefined],
  ]);
});

test("replayed samples are not asked for, though their numbers follow those of the fresh ones", async () => {
  const old = buildSamples([group("old", [trajectory("old", [turn([8], [8])])])]).samples;
  const failed = { kind: "aborted" } as const;
  const groups = [
    group("a", [trajectory("a", [turn([1], [3])])]),
    group("b", [trajectory("b", [turn([1], [4])], failed)]),
  ];
  const batch = joinReplays(buildSamples(groups).samples, [{ id: 0, samples: old, version: 0, weight: 1 }]);
  expect(batch.map((sample) => sample.group)).toEqual([0, 1]);
  const asked: (readonly number[] | undefined)[] = [];
  const records = await recordsOf(groups, batch, { onStep: ({ numbersOf }) => asked.push(numbersOf) });
  expect(asked).toEqual([[0]]);
  expect(records.map(({ advantage }) => advantage)).toEqual([1001, undefined]);
});

test("a rollout whose training fails is recorded without numbers, and steps that are not recorded cost nothing", async () => {
  const groups = [group("g", [trajectory("g", [turn([1], [2])])])];
  const { samples } = buildSamples(groups);
  const fail = () => {
    throw new Error("out of memory");
  };
  await expect(recordsOf(groups, samples, { onStep: fail, isCaught: false })).rejects.toThrow("out of memory");
  const records = await recordsOf(groups, samples, { onStep: fail });
  expect(records.map(({ advantage }) => advantage)).toEqual([undefined]);
  const asked: StepOptions[] = [];
  await recordsOf(groups, samples, { numGroups: 0, onStep: (options) => asked.push(options) });
  expect(asked).toEqual([{ numbersOf: [] }]);
});

test("every trained token of any rollout gets the number of its own place in its own sample", async () => {
  const ids = fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 1, maxLength: 2 });
  const anyTurns = fc.array(
    fc.record({ isForked: fc.boolean(), said: ids, reply: fc.array(fc.constant(1), { maxLength: 2 }) }),
    {
      minLength: 1,
      maxLength: 4,
    },
  );
  const anyGroups = fc.array(fc.array(anyTurns, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(anyGroups, async (plans) => {
      const groups = plans.map((trajectories, i) =>
        group(
          `g${i}`,
          trajectories.map((plan) => trajectory(`g${i}`, playTurns(plan))),
        ),
      );
      const { samples } = buildSamples(groups);
      const recorded = (await recordsOf(groups, samples)).flatMap(({ turns }) =>
        turns.flatMap((one) => one.advantages ?? []),
      );
      const expected = samples.flatMap(({ lossMask }, row) =>
        [...lossMask].flatMap((isLoss, i) => (isLoss === 1 ? [1000 * (row + 1) + i] : [])),
      );
      expect(recorded).toEqual(expected);
    }),
    { numRuns: 60 },
  );
});

type Numbers = NonNullable<StepReport["numbers"]> extends ReadonlyMap<number, infer Value> ? Value : never;

interface Step {
  readonly numbersOf?: (sample: TokenSample, row: number) => Numbers;
  readonly onStep?: (options: StepOptions) => void;
  readonly numGroups?: number;
  readonly filtered?: Rollout["report"]["filtered"];
  readonly isCaught?: boolean;
}

/** What is recorded of a rollout that a made-up trainer was given. */
async function recordsOf(
  groups: readonly TrajectoryGroup[],
  samples: readonly TokenSample[],
  { numbersOf = placeNumbers, onStep, numGroups = 32, filtered = [], isCaught = true }: Step = {},
): Promise<readonly TrajectoryRecord[]> {
  const recorded: RecordedRollout[] = [];
  const tracker = {
    ...silentTracker,
    recordedGroups: () => numGroups,
    recordRollout: (_step: number, _kind: string, rollout: RecordedRollout) => recorded.push(rollout),
  };
  const step = async (_: unknown, options: StepOptions = {}): Promise<StepReport> => {
    onStep?.(options);
    const rows = options.numbersOf ?? [];
    return {
      numUpdates: 1,
      numSkippedInRow: 0,
      metrics: {},
      numbers: new Map(rows.map((row) => [row, numbersOf(samples[row]!, row)])),
    };
  };
  const parts = recordedParts({ trainer: { step }, observer: {} } as unknown as LoopParts, tracker);
  const report = { failed: [], filtered, numGivenUp: 0, numStale: 0, numAborted: 0, numDroppedPrompts: 0 };
  await parts.observer.onRollout?.(7, { groups, report, metrics: {} });
  const trained = parts.trainer.step({ samples, version: 0 });
  await (isCaught ? trained.catch(() => undefined) : trained);
  expect(recorded).toHaveLength(1);
  return [...trajectoryRecords(7, recorded[0]!, numGroups)];
}

/** Advantages that say where they come from: 1000 for each sample up to this one, and the place of the token. */
function placeNumbers({ tokenIds, lossMask }: TokenSample, row: number): Numbers {
  const values = Float32Array.from(tokenIds, (_, i) => 1000 * (row + 1) + i);
  return { policyLogprobs: values, entropies: values, advantages: values, lossMask };
}

function playTurns(plan: readonly { isForked: boolean; said: readonly number[]; reply: readonly number[] }[]): Turn[] {
  let history: readonly number[] = [];
  return plan.map(({ isForked, said, reply }) => {
    const promptIds = isForked ? said : [...history, ...said];
    history = [...promptIds, ...reply];
    return turn(promptIds, reply);
  });
}

function group(id: string, trajectories: readonly Trajectory[]): TrajectoryGroup {
  return { id, prompt: trajectories[0]!.prompt, trajectories };
}

function trajectory(groupId: string, turns: readonly Turn[], end: TrajectoryEnd = completed): Trajectory {
  return {
    ...{ id: groupId, groupId, sampleIndex: 0, seed: 1, turns, end, metrics: {} },
    prompt: { id: "p", domain: "d", seed: 1, messages: [], truth: null, extra: {} },
    reward: { total: 1, score: 1, parts: {} },
    timings: { startedMs: 0, queuedMs: 0, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
  };
}

function turn(promptIds: readonly number[], tokenIds: readonly number[]): Turn {
  const zeros = new Float32Array(tokenIds.length);
  const reply = {
    tokenIds: Int32Array.from(tokenIds),
    samplerLogprobs: zeros,
    drawLogprobs: zeros,
    modelLogprobs: zeros,
    versions: new Int32Array(tokenIds.length),
    cacheVersions: new Int32Array(tokenIds.length),
  };
  return {
    ...{ promptIds: Int32Array.from(promptIds), reply, replyText: "", messages: [], finish: "stop", reward: 0 },
    ...{ metrics: {}, startedMs: 0, generateMs: 0, envMs: 0 },
  };
}
