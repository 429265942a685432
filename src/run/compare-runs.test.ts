import { expect, test } from "vitest";
import type { ReadRun } from "../tracking/read-run.ts";
import { compareTable, listTable } from "./compare-runs.ts";

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
  expect(listTable([{ folder: "runs/a", info }]).split("\n")).toEqual([
    "folder  status    started           steps  recipe  model  tags",
    "runs/a  finished  2026-03-04 05:06  40     grpo    nano   x,y",
  ]);
  expect(listTable([])).toBe("There are no runs here.");
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
