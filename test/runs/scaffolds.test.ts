/** Every project of `reroll init` learns: its reward, or its loss with the sign turned, ends well above where it began. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkEnv } from "reroll";
import { afterAll, expect, test } from "vitest";
import { isControlRun, resolveAnyControl } from "../../src/control/run/prepare-control.ts";
import { trainControl } from "../../src/control/run/train-control.ts";
import { buildEnv } from "../../src/envs/catalog.ts";
import { createProject } from "../../src/run/init/create-project.ts";
import { scaffolds, type TaskKind } from "../../src/run/init/project-files.ts";
import { loadRunFile, type RawRun } from "../../src/run/load-run-file.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { isTuningRun, prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { trainTuning } from "../../src/tuning/train-tuning.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-scaffolds-"));
afterAll(() => rmSync(root, { recursive: true }));

/** Few steps, as each needs to be well above its beginning, and what to leave out for speed. */
const short: Readonly<Record<TaskKind, readonly string[]>> = {
  game: ["loop.steps=6", "warmStart.steps=15", "validation=null"],
  environment: ["loop.steps=16", "validation=null"],
  reward: ["loop.steps=10"],
  agent: ["loop.steps=12"],
  supervised: ["loop.epochs=12"],
  preference: ["loop.epochs=8"],
  "reward-model": ["loop.epochs=8"],
  ppo: ["loop.steps=8"],
  distillation: ["loop.steps=12"],
  reflection: ["loop.steps=12"],
  control: ["loop.steps=8192"],
};

/** By how much the last four rewards are above the first two in those steps: about half of what was measured. */
const rise: Readonly<Record<TaskKind, number>> = {
  game: 0.05,
  environment: 0.06,
  reward: 0.08,
  agent: 0.05,
  supervised: 1,
  preference: 0.1,
  "reward-model": 0.1,
  ppo: 0.025,
  distillation: 0.14,
  reflection: 0.14,
  control: 50,
};

/** Files that run files name. */
const dataFiles: Readonly<Partial<Record<TaskKind, string>>> = {
  reward: "prompts.jsonl",
  supervised: "chats.jsonl",
  preference: "pairs.jsonl",
  "reward-model": "pairs.jsonl",
  ppo: "prompts.jsonl",
};

test.each(Object.keys(scaffolds) as TaskKind[])(
  "the reward of a new project for %s rises",
  async (task) => {
    const folder = join(root, task);
    createProject(folder, { task, model: "nano", name: task, dependency: "^0.1.0" });
    // Paths count from where the command is run, which is the project.
    const file = dataFiles[task];
    const sets = file === undefined ? [] : [`data.path=${join(folder, file)}`];
    const rewards = await train(await loadRunFile(join(folder, "run.ts")), [...short[task], ...sets], folder);
    expect(mean(rewards.slice(-4)) - mean(rewards.slice(0, 2)), `rewards ${rewards}`).toBeGreaterThan(rise[task]);
  },
  240_000,
);

test("the environment of a new project keeps the contract of environments", async () => {
  const folder = join(root, "checked");
  createProject(folder, { task: "environment", model: "nano", name: "checked", dependency: "^0.1.0" });
  const { config } = await prepareRun(join(folder, "run.ts"));
  expect(await checkEnv(buildEnv(config.envs["guess-number"]!))).toEqual([]);
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The rewards of all training steps. */
async function train(file: RawRun, sets: readonly string[], folder: string): Promise<number[]> {
  const rewards: number[] = [];
  const isTuning = isTuningRun(file);
  const tracker = {
    ...silentTracker,
    log: (_step: number, kind: string, metrics: Readonly<Record<string, number>>) => {
      const loss = metrics["train/loss"];
      const reward = isTuning && loss !== undefined ? -loss : metrics["reward/mean"];
      if (kind === "train" && reward !== undefined) rewards.push(reward);
    },
  };
  const signal = new AbortController().signal;
  const parts = { folder: join(folder, "runs"), tracker, signal, isResumed: false };
  const clock = () => performance.now();
  if (isControlRun(file)) {
    await trainControl(resolveAnyControl(file, sets, {}).config, parts, clock);
  } else if (isTuning) {
    await trainTuning(await prepareTuning(file, [...sets, "device=cpu"], {}), parts, clock);
  } else {
    const { config } = await prepareRun(file, [...sets, "device=cpu"], {});
    await trainRun(config, { ...parts, clock });
  }
  return rewards;
}
