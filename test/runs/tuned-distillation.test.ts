/** Learning what a teacher would say at each place of given replies, from run files. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { trainLake } from "./lake-run.ts";
import { tune } from "./tuning-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-tuned-distillation-"));
let start: string;
let teacher: string;

beforeAll(async () => {
  const once = { loop: { steps: 1, rowsPerStep: 4 } };
  start = join((await tune(root, once)).folder, "model");
  teacher = join((await tune(root, { ...once, seed: 5 })).folder, "model");
}, 120_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("a teacher that is the model itself has nothing to teach", async () => {
  const { train, weights } = await tune(root, {
    model: { path: start },
    objective: { type: "distillation", teacher: start },
  });
  expect(train.map((step) => step["train/loss"])).toEqual([0, 0]);
  const once = await tune(root, {
    model: { path: start },
    objective: { type: "distillation", teacher: start },
    loop: { steps: 1, rowsPerStep: 4 },
  });
  expect(weights).toEqual(once.weights);
});

test("the divergence from another model falls, and is the loss", async () => {
  const { train } = await tune(root, {
    model: { path: start },
    objective: { type: "distillation", teacher },
    loop: { steps: 8, rowsPerStep: 4 },
    training: { optimizer: { lr: 3e-3 }, threads: 1 },
  });
  const gaps = train.map((step) => step["distillation/forward_kl"]!);
  expect(gaps[0]).toBeGreaterThan(0.05);
  expect(gaps.at(-1)).toBeLessThan(0.7 * gaps[0]!);
  expect(train[0]!["train/loss"]).toBeCloseTo(gaps[0]!, 6);
});

test("a teacher of another vocabulary is refused before anything starts", async () => {
  const lake = await trainLake(root, { loop: { type: "sync", steps: 0 } });
  const run = tune(root, {
    model: { path: start },
    objective: { type: "distillation", teacher: join(lake.folder, "model") },
  });
  await expect(run).rejects.toThrow(/objective\.teacher has another vocabulary than the model: token \d+ is/);
});
