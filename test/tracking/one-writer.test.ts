/** Two processes never write to one run folder, and one that was killed does not keep others out. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { expect, test } from "vitest";
import { newFolder } from "../../src/run/run-training.ts";
import { listRuns } from "../../src/tracking/read-run.ts";
import { RunFolder } from "../../src/tracking/run-folder.ts";
import { compileScript } from "../compile-script.ts";

const child = await compileScript(new URL("open-folder-child.ts", import.meta.url));
const plan = { name: "one", numSteps: 1, recipe: "grpo", model: "m", tags: [], seed: 1, version: "0" };

interface Opener {
  readonly process: ChildProcessWithoutNullStreams;
  readonly lines: Interface;
}

async function startOpener(folder: string): Promise<Opener> {
  const process_ = spawn(process.execPath, [child, folder]);
  const lines = createInterface(process_.stdout);
  await once(lines, "line");
  return { process: process_, lines };
}

test("of 16 processes that open a run at the same moment, one gets it", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-one-"));
  const folder = join(root, "one");
  await (await RunFolder.create(folder, plan, {})).close();
  const openers = await Promise.all(Array.from({ length: 16 }, () => startOpener(folder)));
  try {
    const answers = openers.map(({ lines }) => once(lines, "line"));
    for (const { process } of openers) process.stdin.write("go\n");
    const said = (await Promise.all(answers)).map(([line]) => String(line));
    expect(said.filter((line) => line === "opened")).toHaveLength(1);
    expect(said.filter((line) => /^refused: .* is being written by process \d+\./.test(line))).toHaveLength(15);

    const winner = openers[said.indexOf("opened")]!;
    const exit = once(winner.process, "exit");
    winner.process.kill("SIGKILL");
    await exit;
    const [listed] = await listRuns(root);
    expect(listed!.info).toMatchObject({ status: "interrupted", error: expect.stringContaining("killed") });
    const next = await RunFolder.openForResume(folder, 0);
    await next.close();
    expect(readdirSync(join(folder, ".claims"))).toEqual([]);
  } finally {
    for (const { process } of openers) process.kill("SIGKILL");
    rmSync(root, { recursive: true });
  }
}, 60_000);

test("runs that start at the same moment under one name get folders of their own", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-own-"));
  const folders = await Promise.all(Array.from({ length: 16 }, () => newFolder(root, "same")));
  expect(new Set(folders).size).toBe(16);
  expect(readdirSync(root)).toHaveLength(16);
  rmSync(root, { recursive: true });
});

test.skipIf(!existsSync("/proc"))(
  "a folder where none can be made is refused at once, also where the system would have it tried for ever",
  async () => {
    await expect(newFolder("/proc/runs/all", "first")).rejects.toMatchObject({
      code: "RUN_FOLDER_WRITE",
      message: expect.stringContaining('tracking.folder is "/proc/runs/all", which cannot be made: ENOENT'),
    });
  },
);
