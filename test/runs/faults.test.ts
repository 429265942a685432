/** A run whose processes are killed goes on by itself. Fifty kills and links that are cut: bench/faults.ts. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test, vi } from "vitest";
import { processTree } from "../../bench/process-tree.ts";
import { countRecords } from "../../bench/run-records.ts";
import { latestStep } from "../../src/run/resumable.ts";
import { callReroll } from "../cli/call-reroll.ts";
import { ending, runReroll, startReroll } from "../cli/run-reroll.ts";
import { digestOf, readWeights } from "./small-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-faults-"));
afterAll(() => rmSync(root, { recursive: true }));
const runFile = fileURLToPath(new URL("faults-run.ts", import.meta.url));
const train = (name: string) => ["train", runFile, "--set", `tracking.folder=${root}`, "--name", name];

test("a run whose rank, engine and controller are killed goes on by itself, and ends with what it would have been without", async () => {
  const child = startReroll([...train("killed"), "--restarts", "3"], { cwd: root });
  const ended = ending(child);
  // The first before there is a checkpoint, the others each in another life of the run, or at another step of it.
  const kills = ["--supervised", "--supervised", "trainer-worker", "engine-process"];
  const hit: number[] = [];
  const step = () => latestStep(join(root, "killed"));
  let lastStep = 0;
  for (const [i, part] of kills.entries()) {
    const find = (part: string) =>
      processTree(child.pid!).find(({ command, pid }) => command.includes(part) && !hit.includes(pid));
    const victim = () => find(part);
    const hasCome = () => (i === 0 ? existsSync(join(root, "killed/run.json")) : step() >= 2 * i && step() > lastStep);
    const isDue = () => hasCome() && victim() !== undefined;
    await vi.waitFor(() => expect(isDue()).toBe(true), { timeout: 150_000, interval: 10 });
    const { pid } = victim()!;
    // A life of the run goes on without its engine, and ends without any other part.
    const ends = part === "engine-process" ? pid : find("--supervised")!.pid;
    hit.push(pid);
    process.kill(pid, "SIGKILL");
    // A process that is gone was noticed by whoever has to.
    await vi.waitFor(() => expect(processTree(ends)).toEqual([]), { timeout: 60_000, interval: 10 });
    lastStep = step();
  }
  const { code, stdout, stderr } = await ended;
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("The process ended with code 1. Starting it again.");
  expect(stderr).toContain("The process was ended by SIGKILL. Starting it again.");
  expect(stdout).toContain("The run had no checkpoint yet and begins again.");
  expect(stdout).toContain("Engine 1 on cpu is back, and is given the weights.");
  expect(readdirSync(root)).toEqual(["killed"]);

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
    digestOf(readWeights(join(root, name, "checkpoints/step-000012/model"))),
  );
  expect(killed).toBe(undisturbed);
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

test("a run whose parent is killed saves a checkpoint and ends, --resume auto goes on with it, and a signal to the parent stops it, once", async () => {
  const words = [...train("stopped"), "--set", "loop.steps=100000", "--resume", "auto", "--restarts", "3"];
  const folder = join(root, "stopped");
  const start = async () => {
    const before = latestStep(folder);
    const child = startReroll(words, { cwd: root });
    const ended = ending(child);
    await vi.waitFor(() => expect(latestStep(folder)).toBeGreaterThan(before), { timeout: 150_000, interval: 10 });
    return { child, ended };
  };
  const lastOf = () => {
    const { status } = JSON.parse(readFileSync(join(folder, "run.json"), "utf8"));
    const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
    return [status, JSON.parse(lines.at(-1)!).step];
  };
  const first = await start();
  first.child.kill("SIGKILL");
  // Its output ends with the last process that holds it: nothing that it started lives on.
  await first.ended;
  expect(lastOf()).toEqual(["interrupted", latestStep(folder)]);

  const second = await start();
  // As a terminal does, to all processes of the group: the run itself leaves it to its parent.
  for (const { pid } of processTree(second.child.pid!)) process.kill(pid, "SIGINT");
  const { code, stdout, stderr } = await second.ended;
  expect(code, stderr).toBe(130);
  expect(stdout).toMatch(/Going on from step \d+\./);
  expect(stderr).toContain("Stopping after this step.");
  expect(lastOf()).toEqual(["interrupted", latestStep(folder)]);
}, 240_000);

const isRoot = process.getuid?.() === 0;

test.skipIf(!isRoot)(
  "a disk that is too full for a checkpoint fails the run, and names the folder (needs root, to mount one)",
  async () => {
    const disk = mkdtempSync(join(root, "disk-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "none", disk]);
    try {
      const here = [
        "--set",
        `tracking.folder=${disk}`,
        "--set",
        "training.ranks=1",
        "--set",
        "placement.engine.workers=threads",
      ];
      const { code, stderr } = await callReroll(...train("full"), ...here);
      expect(code).toBe(1);
      expect(stderr).toContain(
        `The disk of ${join(disk, "full/checkpoints")} has no room for step-000000. Make room there and run the command again`,
      );
    } finally {
      execFileSync("umount", [disk]);
    }
  },
  60_000,
);
