import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadRunFile } from "../../run/load-run-file.ts";
import { readRun } from "../../tracking/read-run.ts";
import { isControlRun, resolveControl } from "./prepare-control.ts";
import { runControl } from "./run-control.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-run-control-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const yaml = `
kind: control
name: small
env: { type: cart-pole, numEnvs: 2 }
policy: { hidden: [8] }
loop: { steps: 128, ticks: 16 }
tracking: { folder: ${JSON.stringify(root)}, tensorboard: false }
`;

async function run(runFile: string, options: { readonly signal?: AbortSignal; readonly resume?: string } = {}) {
  const file = await loadRunFile(runFile);
  expect(isControlRun(file)).toBe(true);
  const sets = ["seed=3"];
  const { config } = resolveControl(file, sets, {});
  const common = { version: "0", environment: {}, runFile, command: "reroll", console: null };
  return runControl(config, sets, { ...common, signal: new AbortController().signal, ...options });
}

test("a run in its thread is stopped between steps, resumed, and leaves the folder of a whole one", async () => {
  const runFile = join(root, "run.yaml");
  writeFileSync(runFile, yaml);
  const stopped = await run(runFile, { signal: AbortSignal.abort() });
  expect(stopped.position.step).toBe(1);
  const folder = join(root, "small");
  expect((await readRun(folder))?.info.status).toBe("interrupted");
  const { position } = await run(runFile, { resume: folder });
  expect(position).toEqual({ step: 4, version: 4 });
  const finished = (await readRun(folder))!;
  expect(finished.info).toMatchObject({ status: "finished", numSteps: 4, recipe: "ppo", seed: 3 });
  expect(finished.metrics.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  expect(finished.metrics.at(-1)?.metrics["throughput/env_steps"]).toBeGreaterThan(0);
});

test("what goes wrong in the thread ends the run with its reason", async () => {
  const runFile = join(root, "broken.mjs");
  writeFileSync(
    runFile,
    `export const run = {
      kind: "control",
      name: "broken",
      env: { type: "custom", create: () => { throw new Error("no such world"); } },
      tracking: { folder: ${JSON.stringify(root)}, tensorboard: false },
    };`,
  );
  await expect(run(runFile)).rejects.toThrow("no such world");
  expect((await readRun(join(root, "broken")))?.info.status).toBe("failed");
});
