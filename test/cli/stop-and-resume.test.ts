/** Runs that are stopped, damaged and resumed, as a person does it: nothing is lost, and nothing changes in silence. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";
import { type Ended, ending, runReroll, startReroll } from "./run-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-stop-"));

beforeAll(() => {
  const run = {
    name: "stopped",
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake", size: 3, prompt: "compact", maxTurns: 2 } },
    rollout: { groupsPerStep: 2, groupSize: 2, context: "turn", contextLength: 64, sampling: { maxTokens: 2 } },
    algorithm: { type: "gigpo" },
    training: { optimizer: { lr: 0.001 } },
    loop: { type: "sync", steps: 1_000_000 },
    tracking: { tensorboard: false, trajectoriesEvery: 0 },
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(run));
});

afterAll(() => rmSync(folder, { recursive: true }));

function reroll(...words: string[]): Promise<Ended> {
  return runReroll(words, { cwd: folder });
}

/** Resumes the first run in this process. */
function resumeHere(...words: string[]): Promise<Ended> {
  return callReroll("train", join(folder, "run.json"), "--resume", join(folder, "runs/stopped"), ...words);
}

/** Starts a run that is signalled when its second step has been reported. */
function startStopped(signal: NodeJS.Signals, words: readonly string[]): ChildProcess {
  const child = startReroll(["train", "run.json", ...words], { cwd: folder });
  let said = "";
  child.stdout!.on("data", (chunk) => {
    const isKnown = said.includes("step 2");
    said += String(chunk);
    if (isKnown || !said.includes("step 2")) return;
    // The terminal that hangs up is gone.
    if (signal === "SIGHUP") for (const stream of [child.stdout!, child.stderr!]) stream.destroy();
    child.kill(signal);
  });
  return child;
}

function readJson(path: string) {
  return JSON.parse(readFileSync(join(folder, "runs", path), "utf8"));
}

function checkpointsOf(run: string): string[] {
  return readdirSync(join(folder, "runs", run, "checkpoints")).sort();
}

const rloo = ["algorithm.type=rloo", "training.optimizer.lr=0.02", "rollout.sampling.temperature=0.7"];

test("a run that is told to stop saves, says so, and keeps its --set values when it is resumed", async () => {
  const words = rloo.flatMap((word) => ["--set", word]);
  const { code, stderr } = await ending(startStopped("SIGTERM", words));
  expect({ code, stderr }).toEqual({ code: 143, stderr: expect.stringContaining("Stopping after this step") });
  expect(readJson("stopped/run.json")).toMatchObject({ status: "interrupted", error: null, sets: rloo });
  const last = checkpointsOf("stopped").at(-1)!;
  const step = Number(last.slice("step-".length));
  expect(step).toBeGreaterThanOrEqual(2);

  const resumed = await reroll("train", "run.json", "--resume", "runs/stopped", "--set", `loop.steps=${step + 1}`);
  expect(resumed.code, resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain(`loop.steps was 1000000 and is ${step + 1}`);
  expect(resumed.stdout).not.toMatch(/algorithm|temperature/);
  expect(readJson("stopped/config.json")).toMatchObject({
    algorithm: { type: "rloo" },
    training: { optimizer: { lr: 0.02 } },
    rollout: { sampling: { temperature: 0.7 } },
    loop: { steps: step + 1 },
  });
  expect(readJson("stopped/run.json")).toMatchObject({
    status: "finished",
    sets: [...rloo, `loop.steps=${step + 1}`],
  });
});

test("what a saved state depends on cannot be changed on the way, and nothing is touched", async () => {
  const before = checkpointsOf("stopped");
  const algorithm = await resumeHere("--set", "algorithm.type=gigpo");
  expect(algorithm.code).toBe(2);
  expect(algorithm.stderr).toMatch(/algorithm\.type is "gigpo", and the run in .*stopped has "rloo"/);
  const seed = await resumeHere("--set", "seed=2");
  expect(seed.code).toBe(2);
  expect(seed.stderr).toMatch(/seed is 2, and the run in .*stopped has 1/);
  expect(checkpointsOf("stopped")).toEqual(before);
  expect(readJson("stopped/run.json")).toMatchObject({ status: "finished" });
});

test("a damaged checkpoint is set aside with a word, and the run goes on from the one before", async () => {
  const [before, last] = checkpointsOf("stopped").slice(-2);
  truncateSync(join(folder, "runs/stopped/checkpoints", last!, "model/model.safetensors"), 1000);
  const resumed = await reroll("train", "run.json", "--resume", "runs/stopped");
  expect(resumed.code, resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain(`The checkpoint ${last} is damaged (model/model.safetensors has 1000 bytes of `);
  expect(resumed.stdout).toContain(`Going on from step ${Number(before!.slice("step-".length))}.`);
  expect(checkpointsOf("stopped")).toEqual(expect.arrayContaining([before, last, `${last}.damaged`]));

  const from = join("runs/stopped/checkpoints", before!);
  const again = await reroll("train", "run.json", "--resume-from", from);
  expect(again.code, again.stderr).toBe(0);
  expect(again.stdout).toContain(`Set aside what came after ${before}: ${last}.replaced.`);
  expect(checkpointsOf("stopped")).toContain(last);

  const stateOf = (name: string) => join(folder, "runs/stopped/checkpoints", name, "loop.json");
  copyFileSync(stateOf(before!), stateOf(last!));
  const third = await resumeHere();
  expect(third.code, third.stderr).toBe(0);
  expect(third.stdout).toContain(
    `The checkpoint ${last} is damaged (loop.json and manifest.json were not written together) and was set aside`,
  );
});

test("a terminal that is closed does not keep a run from saving", async () => {
  const [code] = await once(startStopped("SIGHUP", ["--name", "hung-up"]), "exit");
  expect(code).toBe(129);
  expect(readJson("hung-up/run.json")).toMatchObject({ status: "interrupted" });
  expect(checkpointsOf("hung-up").at(-1)).toMatch(/^step-0*[1-9]\d*$/);
});
