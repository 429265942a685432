import { expect, test } from "vitest";
import type { ReadRun } from "../tracking/read-run.ts";
import { compareTable, listTable, runProgress } from "./compare-runs.ts";

const info = {
  id: "1",
  name: "a",
  status: "finished",
  error: null,
  pid: 1,
  host: "h",
  startedAt: "2026-03-04T05:06:07.000Z",
  endedAt: null,
  numSteps: 40,
  recipe: "grpo",
  model: "nano",
  tags: ["x", "y"],
  seed: 1,
  version: "0.1.0",
  sets: [],
  modelDigest: null,
  decoding: null,
} as const;

function run(folder: string, config: unknown, rewards: readonly number[]): ReadRun {
  const metrics = rewards.map((value, i) => ({
    step: i + 1,
    timeMs: 0,
    kind: "train" as const,
    metrics: { "reward/mean": value },
  }));
  return { folder, info, config, metrics, warnings: [], trajectorySteps: [] };
}

test("a list has a line per run with what tells runs apart", () => {
  const listed = { folder: "runs/a", info, reachedStep: 12, lastReward: 0.123456, bestReward: null };
  expect(listTable([listed]).split("\n")).toEqual([
    "folder  status    started           steps  reward  best  recipe  model  tags",
    "runs/a  finished  2026-03-04 05:06  12/40  0.1235  -     grpo    nano   x,y",
  ]);
  expect(listTable([])).toBe("There are no runs here.");
});

test("progress is the last step, and the last and the best reward of training", () => {
  const record = (step: number, kind: "train" | "validation" | "supervised", metrics: Record<string, number>) => ({
    ...{ step, kind, metrics },
    timeMs: 0,
  });
  const records = [
    record(90, "supervised", { "supervised/loss": 2 }),
    record(1, "train", { "reward/mean": 0.5 }),
    record(2, "train", { "reward/mean": 0.75 }),
    record(3, "train", { "reward/mean": Number.NaN }),
    record(3, "train", { "reward/mean": 0.25 }),
    record(4, "validation", { "validation/reward/mean": 0.9 }),
  ];
  expect(runProgress(records)).toEqual({ reachedStep: 4, lastReward: 0.25, bestReward: 0.75 });
  expect(runProgress([record(1, "train", { "episode/return": -200 })])).toMatchObject({ bestReward: -200 });
  expect(runProgress([])).toEqual({ reachedStep: 0, lastReward: null, bestReward: null });
});

test("a comparison shows the keys that differ and the last value of metrics", () => {
  const text = compareTable([
    run("runs/a", { seed: 1, loop: { steps: 40 } }, [0.1, 0.25]),
    run("runs/b", { seed: 2, loop: { steps: 40 }, data: null }, [0.5]),
  ]);
  expect(text.split("\n")).toEqual([
    "             runs/a  runs/b",
    "seed         1       2",
    "data         -       null",
    "",
    "reward/mean  0.25    0.5",
  ]);
});
