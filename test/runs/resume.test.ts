/** A synchronous run that is killed and resumed gives, to the bit, what it gives when nobody disturbs it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Random } from "../../src/random/random.ts";
import { drawKills, killAndResume } from "./kill-and-resume.ts";

test("a run that is killed again and again ends with the weights and metrics of one that is not", async () => {
  const root = mkdtempSync(join(tmpdir(), "reroll-resume-"));
  try {
    const whole = await killAndResume(join(root, "whole"), []);
    const killed = await killAndResume(join(root, "killed"), drawKills(6, new Random(1)));
    expect(killed.numKilled).toBeGreaterThanOrEqual(5);
    expect(Object.keys(whole.metrics)).toHaveLength(2 + 8 + 5);
    expect(killed.metrics).toEqual(whole.metrics);
    expect(killed.loop).toEqual(whole.loop);
    expect(killed.weights === whole.weights).toBe(true);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}, 180_000);
