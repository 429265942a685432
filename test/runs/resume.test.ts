/** A run that is killed and resumed gives, to the bit, what it gives when nobody disturbs it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Random } from "../../src/random/random.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { runTraining } from "../../src/run/run-training.ts";
import { drawKills, killAndResume, readRemains } from "./kill-and-resume.ts";
import { run as rolloutRun } from "./resume-run.ts";
import { run as tuningRun } from "./tuning-resume-run.ts";
import { tune } from "./tuning-run.ts";

test("a run that is killed again and again ends with the weights and metrics of one that is not", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-resume-"));
  try {
    const prepared = await prepareRun(rolloutRun, [`tracking.folder=${JSON.stringify(join(root, "whole"))}`], {});
    const { signal } = new AbortController();
    const options = { signal, version: "test", environment: {}, runFile: "run.ts", console: null, command: "reroll" };
    const { modelFolder } = await runTraining(prepared, options);
    const whole = readRemains(join(modelFolder, "../../.."));
    const killed = await killAndResume(join(root, "killed"), drawKills(new Random(1)));
    expect(killed.numKilled).toBe(3);
    expect(Object.keys(whole.metrics)).toHaveLength(2 + 6 + 4);
    expect(killed.metrics).toEqual(whole.metrics);
    expect(killed.loop).toEqual(whole.loop);
    expect(killed.weights === whole.weights).toBe(true);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}, 180_000);

test("a tuning run that is killed ends with the weights and metrics of one that is not", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-resume-tuning-"));
  try {
    const whole = readRemains((await tune(join(root, "whole"), tuningRun)).folder);
    const kills = [{ after: "saved", delayMs: 10 }] as const;
    const killed = await killAndResume(join(root, "killed"), kills, "tuning-resume-run.ts");
    expect(killed.numKilled).toBe(1);
    // 33 rows in batches of four; validation at the start, after every second step and at the end.
    expect(Object.keys(whole.metrics)).toHaveLength(9 + 6);
    expect(whole.metrics["train 9"]).toMatchObject({ "experience/rows": 1, "train/epoch": 3 });
    expect(killed.metrics).toEqual(whole.metrics);
    expect(killed.loop).toEqual(whole.loop);
    expect(killed.weights === whole.weights).toBe(true);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}, 120_000);
