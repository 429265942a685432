/** `reroll export` of runs whose weights were never whole on one rank: the folder is that of a run on one rank. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { readWeights } from "../runs/small-run.ts";
import { callReroll } from "./call-reroll.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-export-"));
afterAll(() => rmSync(folder, { recursive: true }));
vi.setConfig({ testTimeout: 240_000 });

const run = {
  device: "cpu",
  model: { preset: "nano" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 2, answerTags: null } },
  rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 64, sampling: { maxTokens: 2 } },
  // An epsilon above the rounding of gradients: AdamW divides by their size.
  training: { optimizer: { lr: 1e-3, eps: 1e-3 }, threads: 1 },
  engine: { threads: 1 },
  loop: { type: "sync", steps: 1 },
  tracking: { tensorboard: false, folder: join(folder, "runs") },
};

/** Trains and exports by the commands that a user types, and gives what the folder holds. */
async function exported(name: string, ranks: number, strategy: object): Promise<Float32Array> {
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ ...run, name, training: { ...run.training, ranks, strategy } }));
  const trained = await callReroll("train", file);
  expect(trained.code, trained.stderr).toBe(0);
  const out = join(folder, `${name}-model`);
  const written = await callReroll("export", join(folder, "runs", name), "--out", out);
  expect(written.code, written.stderr).toBe(0);
  // As any other tool would: by its own config, whole.
  loadCausalLm(out).dispose();
  return readWeights(out);
}

test("a run with weights in shards and one with layers in stages export the model of a run on one rank", async () => {
  const whole = await exported("whole", 1, {});
  for (const [name, strategy] of [
    ["sharded", { zero: 3 }],
    ["staged", { pipeline: 2 }],
  ] as const) {
    const weights = await exported(name, 2, strategy);
    expect(weights.length).toBe(whole.length);
    expect(weights.reduce((most, value, i) => Math.max(most, Math.abs(value - whole[i]!)), 0)).toBeLessThan(1e-5);
  }
});
