import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { OpenSink } from "./metric-sink.ts";
import { readRun, readSpans } from "./read-run.ts";
import { RunFolder } from "./run-folder.ts";
import type { MetricRecord } from "./run-record.ts";
import { openRunTracker, type TrackerParts } from "./run-tracker.ts";

const plan = { name: "first", numSteps: 3, recipe: "grpo", model: "tiny", tags: [], seed: 1, version: "0.1.0" };

let root: string;
let nowMs: number;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "reroll-tracker-"));
  nowMs = 1_700_000_000_000;
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function open(parts: Partial<TrackerParts> = {}) {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  const written: string[] = [];
  const stream = { write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream;
  const tracker = openRunTracker({ folder, config: {}, console: { stream }, clock: () => nowMs, ...parts });
  return { tracker, folder: folder.path, written };
}

test("a step is written with what follows from time: idle shares, stages, throughput", async () => {
  const { tracker, folder } = await open();
  await tracker.span("rollout", async () => {
    tracker.sampleEvent({ sampleId: "a", stage: "generating", atMs: nowMs });
    nowMs += 500;
    tracker.sampleEvent({ sampleId: "a", stage: "complete", atMs: nowMs });
  });
  await tracker.span("train", async () => {
    nowMs += 1500;
  });
  tracker.log(1, "train", { "rollout/reply_tokens": 100, "rollout/trajectories": 4, "experience/tokens": 600 });
  await tracker.setStatus("finished");
  await tracker.close();
  const run = await readRun(folder);
  expect(run?.info).toMatchObject({ status: "finished", endedAt: new Date(nowMs).toISOString() });
  expect(run?.metrics).toEqual([
    {
      step: 1,
      timeMs: nowMs,
      kind: "train",
      metrics: {
        "rollout/reply_tokens": 100,
        "rollout/trajectories": 4,
        "experience/tokens": 600,
        "time/step_ms": 2000,
        "time/rollout_ms": 500,
        "time/train_ms": 1500,
        "idle/engine": 0.75,
        "idle/trainer": 0.25,
        "idle/loop": 0.75,
        "throughput/generate": 800,
        "throughput/train": 400,
        "throughput/step": 300,
      },
    },
  ]);
  expect((await readSpans(folder)).values.map(({ worker, stage }) => [worker, stage])).toEqual([
    ["engine", "generating"],
    ["trainer", "train"],
    ["loop", "rollout"],
  ]);
});

test("validation metrics get their prefix once and end no step of the timeline", async () => {
  const { tracker, folder } = await open();
  nowMs += 1000;
  tracker.log(0, "validation", { "reward/mean": 0.25, "validation/env/success": 0.5 });
  nowMs += 1000;
  tracker.log(1, "supervised", { "supervised/tokens": 100 });
  await tracker.close();
  const metrics = (await readRun(folder))?.metrics.map((record) => record.metrics);
  expect(metrics).toEqual([
    { "validation/reward/mean": 0.25, "validation/env/success": 0.5 },
    { "supervised/tokens": 100, "time/step_ms": 2000, "throughput/step": 50 },
  ]);
});

test("health warnings go to the folder and the terminal", async () => {
  const { tracker, folder, written } = await open();
  for (const step of [1, 2, 3, 4]) tracker.log(step, "train", { "rollout/failed_share": 0.5 });
  await tracker.setStatus("finished");
  await tracker.close();
  const warnings = (await readRun(folder))?.warnings;
  expect(warnings?.map(({ code, step, link }) => [code, step, link])).toEqual([
    ["failures", 3, "docs/guides/runs.md#failures"],
  ]);
  expect(written.filter((line) => line.startsWith("warning: 50 % of trajectories fail."))).toHaveLength(1);
  expect(written.at(-1)).toMatch(/^first finished\nsteps +4\/3, 4 steps in 0 s\nwarnings +1, in /);
  expect(await readFile(join(folder, "log.txt"), "utf8")).toMatch(/^\S+Z step 1\/3\b.*\n/);
});

test("sinks get every record; what one says is a warning, each text once", async () => {
  const records: MetricRecord[] = [];
  const statuses: string[] = [];
  const sink: OpenSink = ({ warn, startStep }) => ({
    log(record) {
      records.push(record);
      warn(`away since ${startStep}`);
    },
    close: async (status) => void statuses.push(status),
  });
  const { tracker, folder } = await open({ sinks: [sink, sink], startStep: 7, console: null });
  tracker.log(8, "train", { a: 1 });
  tracker.log(9, "train", { a: 2 });
  await tracker.close();
  expect(records.map(({ step }) => step)).toEqual([8, 8, 9, 9]);
  expect(statuses).toEqual(["interrupted", "interrupted"]);
  expect((await readRun(folder))?.warnings.map(({ code, text }) => [code, text])).toEqual([["sink", "away since 7"]]);
});

test("a run that fails says why, and a stage that throws is over", async () => {
  const { tracker, folder, written } = await open();
  await expect(tracker.span("train", () => Promise.reject(new Error("out of memory")))).rejects.toThrow(
    "out of memory",
  );
  nowMs += 100;
  tracker.log(1, "train", {});
  await tracker.setStatus("failed", "out of memory");
  await tracker.close();
  const run = await readRun(folder);
  expect(run?.info).toMatchObject({ status: "failed", error: "out of memory" });
  expect(run?.metrics[0]?.metrics["idle/trainer"]).toBe(1);
  expect(written.at(-1)).toContain("first failed\nerror     out of memory\n");
});
