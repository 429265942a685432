/** Every control run file of examples/recipes runs for two rollouts of a few ticks. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { isControlRun, resolveAnyControl } from "../../src/control/run/prepare-control.ts";
import { trainControl } from "../../src/control/run/train-control.ts";
import { loadRunFile } from "../../src/run/load-run-file.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";

const recipes = fileURLToPath(new URL("../../examples/recipes/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "reroll-control-recipes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const names = readdirSync(recipes).filter((name) => name.endsWith(".ts"));
const files = await Promise.all(names.map(async (name) => ({ name, file: await loadRunFile(join(recipes, name)) })));

test.each(files.filter(({ file }) => isControlRun(file)))("$name runs for two rollouts", async ({ name, file }) => {
  const { kind, env } = resolveAnyControl(file, [], {}).config;
  const rollout = 32 * env.numEnvs;
  const short = {
    control: [`loop.steps=${2 * rollout}`, "algorithm.minibatches=4"],
    adaptation: [`loop.train=${rollout}`, "loop.adapt=0", `loop.finetune=${rollout}`, "validation=null"],
  };
  const { config } = resolveAnyControl(file, ["loop.ticks=32", ...short[kind]], {});
  const logged: number[] = [];
  const tracker = { ...silentTracker, log: (step: number) => void logged.push(step) };
  const open = { folder: join(folder, name), tracker, signal: new AbortController().signal, isResumed: false };
  const result = await trainControl(config, open, () => performance.now());
  expect(logged).toEqual([1, 2]);
  expect(Object.values(result.lastMetrics).every(Number.isFinite)).toBe(true);
});
