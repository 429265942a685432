/** The commands as a person runs them, around one small run: in a process of its own where that matters, else in this one. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";
import { exampleRun } from "./example-run.ts";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-commands-"));

const home = process.cwd();
beforeAll(() => process.chdir(folder));
afterAll(() => {
  process.chdir(home);
  rmSync(folder, { recursive: true });
});

function rerollAlone(args: string[], input = "") {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    cwd: folder,
    encoding: "utf8",
    input,
  });
  return { code: status, stdout, stderr };
}

beforeAll(() => {
  const run = {
    ...exampleRun,
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 4 } },
    rollout: { ...exampleRun.rollout, context: "turn", sampling: { maxTokens: 4 } },
    loop: { type: "sync", steps: 2 },
    validation: { prompts: 8 },
    checkpoint: { every: 1 },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run));
});

describe("a run from its file to its weights", () => {
  test("train writes a run folder and says what it is going to do", () => {
    const first = rerollAlone(["train", "run.json", "--name", "first"]);
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toContain("4 prompts x 4 samples = 16 trajectories per step");
    expect(JSON.parse(readFileSync(join(folder, "runs/first/run.json"), "utf8"))).toMatchObject({ status: "finished" });
  });

  test("train goes on from the latest checkpoint, to the weights of a run that never stopped", async () => {
    expect((await callReroll("train", "run.json", "--resume", "runs/first", "--set", "loop.steps=3")).code).toBe(0);
    expect((await callReroll("train", "run.json", "--name", "three", "--set", "loop.steps=3")).code).toBe(0);
    const weights = (run: string) =>
      readFileSync(join(folder, "runs", run, "checkpoints/step-000003/model/model.safetensors"));
    expect(weights("first").equals(weights("three"))).toBe(true);
  });

  test("explain prints every key and trains nothing", async () => {
    const { code, stdout } = await callReroll("train", "run.json", "--explain", "--set", "seed=4");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^seed +4 +--set$/m);
    expect(stdout).toMatch(/^envs\.lake\.holeRate +0\.2 +default$/m);
    expect(stdout).toMatch(/^rollout\.groupSize +4 +file$/m);
  });

  test("runs are listed and compared", async () => {
    const { stdout } = await callReroll("runs");
    expect(stdout).toMatch(/runs\/first +finished .* 3\/3 +-?\d/);
    expect(stdout).toMatch(/runs\/three .*finished/);
    expect((await callReroll("runs", "compare", "runs/first", "three")).stdout).toMatch(/^name +"first" +"three"$/m);
    expect(await callReroll("runs", "compare", "runs")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("holds no run"),
    });
  });

  test("eval validates a checkpoint as the run file says", async () => {
    const { code, stdout } = await callReroll("eval", "runs/first", "--run-file", "run.json", "--json");
    expect(code).toBe(0);
    const metrics = JSON.parse(stdout);
    expect(metrics["validation/rollout/trajectories"]).toBe(8);
    expect(metrics["validation/reward/mean"]).toBeGreaterThanOrEqual(-1);
  });

  test("generate answers a prompt from a flag or a pipe, the same for the same seed", async () => {
    const flags = ["generate", "runs/first", "--max-tokens", "4", "--seed", "3"];
    const fromFlag = await callReroll(...flags, "--prompt", "P _ _");
    expect(fromFlag.code).toBe(0);
    expect(rerollAlone(flags, "P _ _\n").stdout).toBe(fromFlag.stdout);
  });

  test("export writes a folder that generate takes", async () => {
    expect((await callReroll("export", "runs/first", "--out", "model")).code).toBe(0);
    expect(readdirSync(join(folder, "model"))).toEqual(
      expect.arrayContaining(["config.json", "model.safetensors", "tokenizer.json"]),
    );
    expect((await callReroll("generate", "model", "--prompt", "P", "--max-tokens", "2")).code).toBe(0);
    expect(await callReroll("export", "runs/first", "--out", "model")).toMatchObject({ code: 2 });
  });
});

test("init writes a project without asking when there is no terminal, and its run file is accepted", async () => {
  const { code, stdout } = rerollAlone(["init", "mine", "--task", "environment"]);
  expect(code).toBe(0);
  expect(stdout).toContain("cd mine && npm install && npx reroll train run.ts");
  expect(await callReroll("train", "mine/run.ts", "--plan")).toMatchObject({ code: 0, stderr: "" });
  const again = await callReroll("init", "mine", "--task", "environment");
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("Nothing was written") });
});

test("init refuses a model that is not there, or is none, before it writes anything", async () => {
  mkdirSync("no-model");
  for (const [model, says] of [
    ["./Qwen3-0.6B", `and ${join(process.cwd(), "Qwen3-0.6B")} does not exist. It takes a preset (nano,`],
    ["models/Qwen3-0.6B", "does not exist"],
    ["nanno", "does not exist"],
    ["no-model", "The folder is there, but it holds no model."],
  ] as const) {
    const { code, stderr } = await callReroll("init", "refused", "--task", "game", "--model", model);
    expect(stderr).toContain(`--model names ${JSON.stringify(model)}, and `);
    expect(stderr).toContain(says);
    expect(code).toBe(2);
  }
  expect(existsSync("refused")).toBe(false);
  expect(await callReroll("init", "by-name", "--task", "game", "--model", "Qwen/Qwen3-0.6B")).toMatchObject({
    code: 0,
  });
});

test("doctor finds this machine ready", async () => {
  const { code, stdout } = await callReroll("doctor");
  expect(code).toBe(0);
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
});
