/** The commands as a person runs them, each in a process of its own, around one small run. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exampleRun } from "./example-run.ts";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-commands-"));

afterAll(() => rmSync(folder, { recursive: true }));

function reroll(args: string[], input?: string) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    cwd: folder,
    encoding: "utf8",
    input: input ?? "",
  });
  return { status, stdout, stderr };
}

beforeAll(() => {
  const run = {
    ...exampleRun,
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 4 } },
    rollout: { ...exampleRun.rollout, context: "turn" },
    loop: { type: "sync", steps: 2 },
    validation: { prompts: 8 },
    checkpoint: { every: 1 },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run));
});

describe("a run from its file to its weights", () => {
  test("train writes a run folder and says what it is going to do", () => {
    const first = reroll(["train", "run.json", "--name", "first"]);
    expect(first).toMatchObject({ status: 0, stderr: "" });
    expect(first.stdout).toContain("4 prompts x 4 samples = 16 trajectories per step");
    expect(JSON.parse(readFileSync(join(folder, "runs/first/run.json"), "utf8"))).toMatchObject({ status: "finished" });
  });

  test("train goes on from the latest checkpoint, to the weights of a run that never stopped", () => {
    expect(reroll(["train", "run.json", "--resume", "runs/first", "--set", "loop.steps=3"]).status).toBe(0);
    expect(reroll(["train", "run.json", "--name", "three", "--set", "loop.steps=3"]).status).toBe(0);
    const weights = (run: string) =>
      readFileSync(join(folder, "runs", run, "checkpoints/step-000003/model/model.safetensors"));
    expect(weights("first").equals(weights("three"))).toBe(true);
  });

  test("explain prints every key and trains nothing", () => {
    const { status, stdout } = reroll(["train", "run.json", "--explain", "--set", "seed=4"]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^seed +4 +--set$/m);
    expect(stdout).toMatch(/^envs\.lake\.holeRate +0\.2 +default$/m);
    expect(stdout).toMatch(/^rollout\.groupSize +4 +file$/m);
  });

  test("runs are listed and compared", () => {
    const { stdout } = reroll(["runs"]);
    expect(stdout).toMatch(/runs\/first +finished .* 3\/3 +-?\d/);
    expect(stdout).toMatch(/runs\/three .*finished/);
    expect(reroll(["runs", "compare", "runs/first", "three"]).stdout).toMatch(/^name +"first" +"three"$/m);
    expect(reroll(["runs", "compare", "runs"])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("holds no run"),
    });
  });

  test("eval validates a checkpoint as the run file says", () => {
    const { status, stdout } = reroll(["eval", "runs/first", "--run-file", "run.json", "--json"]);
    expect(status).toBe(0);
    const metrics = JSON.parse(stdout);
    expect(metrics["validation/rollout/trajectories"]).toBe(8);
    expect(metrics["validation/reward/mean"]).toBeGreaterThanOrEqual(-1);
  });

  test("generate answers a prompt from a flag or a pipe, the same for the same seed", () => {
    const flags = ["generate", "runs/first", "--max-tokens", "4", "--seed", "3"];
    const fromFlag = reroll([...flags, "--prompt", "P _ _"]);
    expect(fromFlag.status).toBe(0);
    expect(reroll(flags, "P _ _\n").stdout).toBe(fromFlag.stdout);
  });

  test("export writes a folder that generate takes", () => {
    expect(reroll(["export", "runs/first", "--out", "model"]).status).toBe(0);
    expect(readdirSync(join(folder, "model"))).toEqual(
      expect.arrayContaining(["config.json", "model.safetensors", "tokenizer.json"]),
    );
    expect(reroll(["generate", "model", "--prompt", "P", "--max-tokens", "2"]).status).toBe(0);
    expect(reroll(["export", "runs/first", "--out", "model"])).toMatchObject({ status: 2 });
  });
}, 120_000);

test("init writes a project without asking when there is no terminal, and its run file is accepted", () => {
  const { status, stdout } = reroll(["init", "mine", "--task", "environment"]);
  expect(status).toBe(0);
  expect(stdout).toContain("cd mine && npm install && npx reroll train run.ts");
  expect(reroll(["train", "mine/run.ts", "--plan"])).toMatchObject({ status: 0, stderr: "" });
  const again = reroll(["init", "mine", "--task", "environment"]);
  expect(again).toMatchObject({ status: 2, stderr: expect.stringContaining("Nothing was written") });
});

test("doctor finds this machine ready", () => {
  const { status, stdout } = reroll(["doctor"]);
  expect(status).toBe(0);
  expect(stdout).toMatch(/^ok +engine = trainer, cpu/m);
  expect(stdout).toMatch(/^ok +microbatches, cpu/m);
});

describe("Ctrl-C", () => {
  /** Starts a run that would take hours, and waits for its first step. */
  async function startLong(
    name: string,
  ): Promise<{ child: ChildProcess; ended: Promise<[number | null, string | null]> }> {
    const child = spawn(
      process.execPath,
      [main, "train", "run.json", "--name", name, "--set", "loop.steps=100000", "--set", "checkpoint.every=0"],
      { cwd: folder },
    );
    const ended = new Promise<[number | null, string | null]>((resolve) =>
      child.on("exit", (code, signal) => resolve([code, signal])),
    );
    const begun = new Promise<void>((resolve) => {
      child.stdout.on("data", (text: Buffer) => {
        if (String(text).includes("step 2/")) resolve();
      });
    });
    await Promise.race([begun, ended.then(([code]) => Promise.reject(new Error(`train ended with code ${code}`)))]);
    return { child, ended };
  }

  test("once ends the run after its step, with a checkpoint", async () => {
    const { child, ended } = await startLong("stopped");
    child.kill("SIGINT");
    expect(await ended).toEqual([130, null]);
    // That of the start, and that of the end.
    expect(readdirSync(join(folder, "runs/stopped/checkpoints"))).toHaveLength(2);
    expect(JSON.parse(readFileSync(join(folder, "runs/stopped/run.json"), "utf8"))).toMatchObject({
      status: "interrupted",
    });
  });

  test("twice ends it at once", async () => {
    const { child, ended } = await startLong("killed");
    await new Promise<void>((resolve) => {
      child.stderr?.on("data", (text: Buffer) => {
        if (!String(text).includes("Stopping after this step")) return;
        child.kill("SIGINT");
        resolve();
      });
      child.kill("SIGINT");
    });
    const [code, signal] = await ended;
    // The run may have ended by itself in the moment between the two.
    expect(signal === "SIGINT" || code === 130).toBe(true);
  });
}, 120_000);
