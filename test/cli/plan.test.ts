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
