import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";

test("the placements of a run on eight GPUs are printed on a machine that has none", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-plan-"));
  try {
    const file = join(folder, "run.json");
    const envs = { lake: { type: "frozen-lake" } };
    writeFileSync(file, JSON.stringify({ model: { preset: "small" }, envs, training: { optimizer: { lr: 1e-5 } } }));
    const { code, stdout } = await callReroll("plan", file, "--gpus", "8");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^1\. training\.ranks \d, placement\.engine\.devices ".*": .* per step/);
    expect(stdout).toContain("GPUs 0-7:");
    expect(stdout).toContain("measured on one H200");
    expect((await callReroll("plan", file, "--gpus", "none")).code).toBe(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a plan reads the data, and tells what is in it or which line is broken", async () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-plan-"));
  try {
    const file = join(folder, "run.json");
    const path = join(folder, "rows.jsonl");
    const data = { type: "jsonl", path, schema: "plain", fields: { question: "asked", truth: "answer" } };
    const run = { model: { preset: "nano" }, data, training: { optimizer: { lr: 1e-4 } } };
    writeFileSync(file, JSON.stringify({ ...run, rewards: { default: { type: "math" } } }));
    writeFileSync(path, '{"asked":"one","answer":"1"}\n{"asked":"two","answer":"2"}\n');
    const whole = await callReroll("train", file, "--plan");
    expect(whole.stdout).toMatch(/rows: .*2 /);
    expect(whole.code).toBe(0);
    writeFileSync(path, '{"asked":"one","answer":"1"}\n{"asked":"two" "answer":"2"}\n');
    const broken = await callReroll("train", file, "--plan");
    expect(broken.stderr).toContain("rows.jsonl line 2 is not JSON");
    expect(broken.code).toBe(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
