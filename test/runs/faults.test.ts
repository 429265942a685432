/** A run whose processes are killed goes on by itself. Fifty kills and links that are cut: bench/faults.ts. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test, vi } from "vitest";
import { processTree } from "../../bench/process-tree.ts";
import { countRecords } from "../../bench/run-records.ts";
import { latestStep } from "../../src/run/resumable.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { ending, runReroll, startReroll } from "../cli/run-reroll.ts";
import { readWeights } from "./small-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-faults-"));
afterAll(() => rmSync(root, { recursive: true }));
const runFile = fileURLToPath(new URL("faults-run.ts", import.meta.url));
const train = (name: string) => ["train", runFile, "--set", `tracking.folder=${root}`, "--name", name];

test("a run whose rank, engine and controller are killed goes on by itself, and ends with what it would have been without", async () => {
  const child = startReroll([...train("killed"), "--restarts", "3"], { cwd: root });
  const ended = ending(child);
  const kills = ["--supervised", "trainer-worker", "engine-process"];
  const hit: number[] = [];
  for (const [i, part] of kills.entries()) {
    // Each in another life of the run, or at another step of it.
    const victim = () =>
      processTree(child.pid!).find(({ command, pid }) => command.includes(part) && !hit.includes(pid));
    const isDue = () => latestStep(join(root, "killed")) >= 2 * (i + 1) && victim() !== undefined;
    await vi.waitFor(() => expect(isDue()).toBe(true), { timeout: 150_000, interval: 10 });
    const { pid } = victim()!;
    hit.push(pid);
    process.kill(pid, "SIGKILL");
    // A process that is gone was noticed by whoever has to.
    await vi.waitFor(() => expect(processTree(pid)).toEqual([]), { timeout: 60_000, interval: 10 });
  }
  const { code, stdout, stderr } = await ended;
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("The process ended with code 1. Starting it again.");
  expect(stderr).toContain("The process was ended by SIGKILL. Starting it again.");
  expect(stdout).toContain("Engine 1 on cpu is back, and is given the weights.");

  const whole = await callReroll(...train("whole"));
  expect(whole.code, whole.stderr).toBe(0);
  const [{ rewards, ...counts }, without] = [
    countRecords(join(root, "killed"), 8),
    countRecords(join(root, "whole"), 8),
  ];
  expect(counts).toEqual({
    ...{ numSteps: 12, wrongSteps: [], shortSteps: [], numTrained: 96, numTwice: 0, numLost: 0, numFailed: 0 },
  });
  expect(rewards).toEqual(without.rewards);
  const [killed, undisturbed] = ["killed", "whole"].map((name) =>
    readWeights(join(root, name, "checkpoints/step-000012/model")),
  );
  expect(killed).toEqual(undisturbed);
}, 480_000);

test("a run that cannot go on is given up, and one that was refused is not tried again", async () => {
  const wrong = await runReroll([...train("wrong"), "--set", "loop.stepz=3", "--restarts", "3"], { cwd: root });
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).not.toContain("Starting it again");
  writeFileSync(join(root, "file"), "");
  const nowhere = ["--set", `tracking.folder=${join(root, "file/runs")}`, "--restarts", "1"];
  const failed = await runReroll([...train("failed"), ...nowhere], { cwd: root });
  expect(failed.code).toBe(1);
  expect(failed.stderr.match(/Starting it again/g)).toHaveLength(1);
  expect(failed.stderr).toContain(
    "error: The process ended with code 1 after 1 restarts in a row that brought it no further. What it printed says why.",
  );
}, 240_000);

test("a signal reaches the run through its parent, once: it stops after the step under way, with a checkpoint", async () => {
  const child = startReroll([...train("stopped"), "--set", "loop.steps=100000", "--restarts", "3"], { cwd: root });
  const ended = ending(child);
  await vi.waitFor(() => expect(latestStep(join(root, "stopped"))).toBeGreaterThan(0), {
    timeout: 150_000,
    interval: 10,
  });
  // As a terminal does, to all processes of the group: the run itself leaves it to its parent.
  for (const { pid } of processTree(child.pid!)) process.kill(pid, "SIGINT");
  const { code, stderr } = await ended;
  expect(code, stderr).toBe(130);
  expect(stderr).toContain("Stopping after this step.");
  const { status } = JSON.parse(readFileSync(join(root, "stopped/run.json"), "utf8"));
  const lines = readFileSync(join(root, "stopped/metrics.jsonl"), "utf8").trim().split("\n");
  expect([status, JSON.parse(lines.at(-1)!).step]).toEqual(["interrupted", latestStep(join(root, "stopped"))]);
}, 240_000);
