import { spawnSync } from "node:child_process";
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import type { Trajectory, TrajectoryGroup, Turn } from "../flow/trajectory.ts";
import { listRuns, readInfo, readMetrics, readRun, readSpans, readTrajectories } from "./read-run.ts";
import { RunFolder, type RunPlan } from "./run-folder.ts";

const plan: RunPlan = {
  name: "first",
  numSteps: 10,
  recipe: "grpo",
  model: "tiny",
  tags: ["test"],
  seed: 7,
  version: "0.1.0",
};

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "reroll-run-"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

test("what is written is read back, NaN and infinities among it", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, { algorithm: { type: "grpo" } });
  folder.appendMetrics({
    step: 1,
    timeMs: 5,
    kind: "train",
    metrics: { "reward/mean": 0.5, "train/loss": Number.NaN },
  });
  folder.appendMetrics({ step: 1, timeMs: 6, kind: "validation", metrics: { "reward/max": -Infinity } });
  folder.appendSpan({ worker: "engine", stage: "generating", startMs: 1, endMs: 2, step: 1 });
  folder.appendWarning({ step: 1, timeMs: 7, code: "failures", text: "Many fail.", link: null });
  await folder.setInfo({ status: "finished", endedAt: "2026-01-01T00:00:00.000Z" });
  await folder.close();
  const run = await readRun(folder.path);
  expect(run?.info).toMatchObject({ ...plan, status: "finished", pid: process.pid, error: null });
  expect(run?.config).toEqual({ algorithm: { type: "grpo" } });
  expect(run?.metrics).toEqual([
    { step: 1, timeMs: 5, kind: "train", metrics: { "reward/mean": 0.5, "train/loss": Number.NaN } },
    { step: 1, timeMs: 6, kind: "validation", metrics: { "reward/max": -Infinity } },
  ]);
  expect(run?.warnings.map(({ code }) => code)).toEqual(["failures"]);
  expect((await readSpans(folder.path)).values).toHaveLength(1);
});

test("a folder that holds a run is not written into", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  await folder.close();
  await expect(RunFolder.create(join(root, "first"), plan, {})).rejects.toThrow(/already holds a run\. Resume it/);
});

test("a run that has no checkpoint is replaced where that is asked for, and keeps its log; one that has a checkpoint is not", async () => {
  const path = join(root, "first");
  const before = await RunFolder.create(path, plan, {});
  before.appendMetrics({ step: 1, timeMs: 1, kind: "train", metrics: { a: 1 } });
  before.appendLog("It began.");
  await before.close();
  await mkdir(join(path, "checkpoints/step-000005.writing"));
  const after = await RunFolder.create(path, { ...plan, seed: 8 }, {}, { replaces: true });
  expect((await readRun(path))?.info.seed).toBe(8);
  expect((await readRun(path))?.metrics).toEqual([]);
  expect(await readdir(join(path, "checkpoints"))).toEqual([]);
  expect(await readFile(join(path, "log.txt"), "utf8")).toContain("It began.");
  await after.close();
  await mkdir(join(path, "checkpoints/step-000005"));
  await expect(RunFolder.create(path, plan, {}, { replaces: true })).rejects.toThrow(/already holds a run/);
});

test("resuming forgets what was written after the step, and repairs a torn line", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  for (const step of [1, 2, 3]) {
    folder.appendMetrics({ step, timeMs: step, kind: "train", metrics: { a: step } });
    folder.appendWarning({ step, timeMs: step, code: `code-${step}`, text: "", link: null });
    await folder.writeTrajectories(step, { groups: [group("g")], report: { failed: [], filtered: [] } });
  }
  await folder.close();
  const { id } = folder.info;
  await appendFile(join(folder.path, "metrics.jsonl"), '{"step":2,"timeMs":9,"ki');
  const resumed = await RunFolder.openForResume(folder.path, 2);
  resumed.appendMetrics({ step: 3, timeMs: 30, kind: "train", metrics: { a: 33 } });
  await resumed.close();
  const run = await readRun(folder.path);
  expect(run?.info.id).toBe(id);
  expect(run?.metrics.map(({ timeMs, metrics }) => [timeMs, metrics.a])).toEqual([
    [1, 1],
    [2, 2],
    [30, 33],
  ]);
  expect(run?.warnings.map(({ code }) => code)).toEqual(["code-1", "code-2"]);
  expect(run?.trajectorySteps).toEqual([1, 2]);
  expect((await readdir(folder.path)).filter((name) => /kept|draft/.test(name))).toEqual([]);
});

test("resuming keeps the warm start, and the timeline up to the last record that stays", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  const kinds = ["supervised", "supervised", "train", "validation", "train"] as const;
  const steps = [1, 2, 1, 1, 2];
  kinds.forEach((kind, i) => {
    folder.appendMetrics({ step: steps[i]!, timeMs: 10 * i, kind, metrics: {} });
    folder.appendSpan({ worker: "trainer", stage: "train", startMs: 10 * i - 5, endMs: 10 * i, step: steps[i]! });
    folder.appendWarning({ step: steps[i]!, timeMs: 10 * i, code: `${i}`, text: "", link: null });
  });
  await folder.close();
  await (await RunFolder.openForResume(folder.path, 1)).close();
  const trained = await readRun(folder.path);
  expect(trained?.metrics.map(({ kind, step }) => [kind, step])).toEqual([
    ["supervised", 1],
    ["supervised", 2],
    ["train", 1],
    ["validation", 1],
  ]);
  expect(trained?.warnings.map(({ code }) => code)).toEqual(["0", "1", "2", "3"]);
  expect((await readSpans(folder.path)).values).toHaveLength(4);
  await (await RunFolder.openForResume(folder.path, 1, {}, "supervised")).close();
  expect((await readRun(folder.path))?.metrics).toHaveLength(1);
  expect((await readSpans(folder.path)).values).toHaveLength(1);
});

test("a run that another process is writing is not resumed", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  await expect(RunFolder.openForResume(folder.path, 1)).rejects.toThrow(
    /is being written by process \d+\. Stop it first/,
  );
  await expect(RunFolder.create(folder.path, plan, {})).rejects.toMatchObject({ code: "RUN_ACTIVE" });
  await folder.close();
  await (await RunFolder.openForResume(folder.path, 1)).close();
});

test("a run whose process was killed is resumed", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  await folder.setInfo({ pid: spawnSync("true").pid });
  await folder.close();
  const resumed = await RunFolder.openForResume(folder.path, 1);
  expect(resumed.info).toMatchObject({ status: "running", pid: process.pid });
  await resumed.close();
});

test("lines are written in the background", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {}, { flushMs: 5 });
  folder.appendMetrics({ step: 1, timeMs: 1, kind: "train", metrics: {} });
  await vi.waitFor(async () => expect((await readMetrics(folder.path)).values).toHaveLength(1));
  await folder.close();
});

test("resuming what is no run says so", async () => {
  await expect(RunFolder.openForResume(join(root, "none"), 1)).rejects.toThrow(/holds no run to resume/);
});

test("a file that grows is read on from where the last reading ended, whole lines only", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  folder.appendMetrics({ step: 1, timeMs: 1, kind: "train", metrics: { "reward/größe": 1 } });
  await folder.flush();
  const path = join(folder.path, "metrics.jsonl");
  const first = await readMetrics(folder.path);
  await appendFile(path, '{"step":2,"timeMs":2,"kind":"train",');
  const torn = await readMetrics(folder.path, first.nextByte);
  await appendFile(path, '"metrics":{}}\nno json\n{"step":3}\n');
  const second = await readMetrics(folder.path, torn.nextByte);
  await folder.close();
  expect(first.values).toHaveLength(1);
  expect(torn).toEqual({ values: [], nextByte: first.nextByte });
  expect(second.values).toEqual([{ step: 2, timeMs: 2, kind: "train", metrics: {} }]);
  expect(second.nextByte).toBe((await readFile(path)).length);
});

test("a list of runs leaves out what is none, and the newest is first", async () => {
  const first = await RunFolder.create(join(root, "first"), plan, {});
  await first.setInfo({ startedAt: "2026-01-01T00:00:00.000Z" });
  const second = await RunFolder.create(join(root, "second"), { ...plan, name: "second" }, {});
  await Promise.all([first.close(), second.close()]);
  await writeFile(join(root, "notes.txt"), "");
  await rm(join(root, "second", "metrics.jsonl"), { force: true });
  expect((await listRuns(root)).map(({ info }) => info.name)).toEqual(["second", "first"]);
  expect(await listRuns(join(root, "nowhere"))).toEqual([]);
  expect(await readRun(join(root, "nowhere"))).toBeUndefined();
  expect((await readRun(join(root, "second")))?.metrics).toEqual([]);
});

test("a run whose process is gone is interrupted", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  expect((await readInfo(folder.path))?.status).toBe("running");
  // Above the largest process id that Linux gives.
  await folder.setInfo({ pid: 2 ** 22 + 1 });
  await folder.close();
  expect((await readInfo(folder.path))?.status).toBe("interrupted");
});

test("trajectories are written every so many steps, of at most so many groups, with what was not trained on", async () => {
  const options = { trajectoryInterval: 2, maxTrajectoryGroups: 1 };
  const folder = await RunFolder.create(join(root, "first"), plan, {}, options);
  const error = new RerollError("ENV_FAILED", "The server is down.");
  const failed = { ...trajectory("g0/9", "g0"), end: { kind: "failed", stage: "environment", error } } as const;
  const rollout = {
    groups: [group("g0"), group("g1")],
    report: { failed: [failed], filtered: [{ group: group("g2"), reason: "equal-rewards" }] },
  };
  for (const step of [1, 2, 3]) await folder.writeTrajectories(step, rollout);
  await folder.close();
  expect((await readRun(folder.path))?.trajectorySteps).toEqual([2]);
  const { values } = await readTrajectories(folder.path, 2);
  expect(values.map(({ id, fate, reason }) => [id, fate, reason])).toEqual([
    ["g0/0", "delivered", null],
    ["g2/0", "filtered", "equal-rewards"],
    ["g0/9", "failed", "environment: The server is down."],
  ]);
  expect(values[2]?.end).toEqual({
    kind: "failed",
    stage: "environment",
    code: "ENV_FAILED",
    message: "The server is down.",
  });
});

test("a trajectory keeps its tokens: prompts as what is new in them, log-probs with 4 digits", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  await folder.writeTrajectories(1, { groups: [group("g")], report: { failed: [], filtered: [] } });
  await folder.close();
  const { values } = await readTrajectories(folder.path, 1);
  expect(
    values[0]?.turns.map(({ promptFrom, promptIds, tokenIds, samplerLogprobs, versions }) => ({
      promptFrom,
      promptIds,
      tokenIds,
      samplerLogprobs,
      versions,
    })),
  ).toEqual([
    { promptFrom: 0, promptIds: [1, 2], tokenIds: [3, 4], samplerLogprobs: [-0.1235, -2], versions: [5, 6] },
    { promptFrom: 4, promptIds: [9], tokenIds: [3, 4], samplerLogprobs: [-0.1235, -2], versions: [5, 6] },
  ]);
});

test("a trajectory keeps the state after its last turn, where it is known", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  const played = trajectory("g/0", "g");
  const [first, second] = played.turns;
  const turns = [
    { ...first!, nextStateKey: "middle" },
    { ...second!, nextStateKey: "end" },
  ];
  const groups = [turns, played.turns].map((own) => ({ ...group("g"), trajectories: [{ ...played, turns: own }] }));
  await folder.writeTrajectories(1, { groups, report: { failed: [], filtered: [] } });
  await folder.close();
  const { values } = await readTrajectories(folder.path, 1);
  expect(values.map(({ finalStateKey }) => finalStateKey)).toEqual(["end", undefined]);
});

test("a step that is not recorded has no groups to say more about", async () => {
  const options = { trajectoryInterval: 2, maxTrajectoryGroups: 5 };
  const folder = await RunFolder.create(join(root, "first"), plan, {}, options);
  expect([1, 2, 3, 4].map((step) => folder.recordedGroups(step))).toEqual([0, 5, 0, 5]);
  await folder.close();
});

test("a file that cannot be written is an error of the next call", async () => {
  const folder = await RunFolder.create(join(root, "first"), plan, {});
  await rm(folder.path, { recursive: true });
  folder.appendMetrics({ step: 1, timeMs: 1, kind: "train", metrics: {} });
  await expect(folder.flush()).rejects.toThrow(/^Cannot write .*metrics\.jsonl: ENOENT/);
  await expect(folder.close()).rejects.toThrow(/^Cannot write/);
});

function group(id: string): TrajectoryGroup {
  const only = trajectory(`${id}/0`, id);
  return { id, prompt: only.prompt, trajectories: [only] };
}

function trajectory(id: string, groupId: string): Trajectory {
  return {
    id,
    groupId,
    prompt: { id: "p", domain: "d", seed: 1, messages: [{ role: "user", content: "hi" }], truth: 42, extra: {} },
    sampleIndex: 0,
    seed: 3,
    turns: [turn([1, 2]), turn([1, 2, 3, 4, 9])],
    end: { kind: "completed" },
    reward: { total: 1, score: 1, parts: { exact: 1 } },
    metrics: { success: 1 },
    timings: { startedMs: 0, queuedMs: 0, generateMs: 1, envMs: 1, rewardMs: 1, totalMs: 3 },
  };
}

function turn(promptIds: readonly number[]): Turn {
  const samplerLogprobs = Float32Array.of(-0.12345, -2);
  return {
    promptIds: Int32Array.from(promptIds),
    reply: {
      tokenIds: Int32Array.of(3, 4),
      samplerLogprobs,
      drawLogprobs: samplerLogprobs,
      modelLogprobs: samplerLogprobs,
      versions: Int32Array.of(5, 6),
      cacheVersions: Int32Array.of(5, 6),
    },
    replyText: "ho",
    messages: [],
    finish: "stop",
    reward: 0,
    metrics: {},
    startedMs: 0,
    generateMs: 1,
    envMs: 1,
  };
}

test("a run on another machine counts as running, unless it is the same job of a scheduler, which runs once at a time", async () => {
  const folder = await RunFolder.create(join(root, "elsewhere"), plan, {});
  await folder.close();
  const claim = { pid: 1, host: "a machine that died", started: "1", job: "slurm lab 7" };
  await writeFile(join(folder.path, ".claims/old.claim"), JSON.stringify(claim));
  await writeFile(join(folder.path, ".claims/old.held"), "");
  for (const job of ["", "slurm lab 8"])
    await expect(RunFolder.openForResume(folder.path, 0, { job })).rejects.toThrow(
      "is being written by process 1 of the machine a machine that died",
    );
  await (await RunFolder.openForResume(folder.path, 0, { job: "slurm lab 7" })).close();
  await (await RunFolder.openForResume(folder.path, 0)).close();
});
