/**
 * Every kind of run goes on to the bit. Processes that are really killed are in resume.test.ts; here the last checkpoint of a run is
 * removed, as if it had been killed before it, and it is resumed in its folder: weights, optimizers, controllers and metrics must be
 * those that were there.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import type { ObjectiveChoice } from "../../src/training/objectives/table.ts";
import { writeRewardModel } from "../rewards/write-reward-model.ts";
import { readRemains } from "./kill-and-resume.ts";
import { type LakeChanges, trainLake } from "./lake-run.ts";
import { type TuningChanges, tune } from "./tuning-run.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-resume-kinds-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A teacher of bytes for tuning runs, a policy that moves on the lake and a teacher of its words, and a reward model. */
const models = { bytes: "", policy: "", teacher: "", judge: "" };
const lake = {
  type: "frozen-lake",
  prompt: "compact",
  size: 2,
  isSlippery: false,
  maxTurns: 4,
  answerTags: null,
} as const;

beforeAll(async () => {
  const none = { loop: { type: "sync", steps: 0 }, envs: { lake } } as const;
  const warmStart = { type: "play", steps: 4, turnsPerStep: 32 } as const;
  const warm = await trainLake(root, { ...none, warmStart });
  models.policy = join(warm.folder, "warm-start/model");
  models.teacher = join((await trainLake(root, { ...none, seed: 7 })).folder, "model");
  const tuned = await tune(root, { seed: 5, loop: { steps: 1, rowsPerStep: 4 } });
  models.bytes = join(tuned.folder, "model");
  models.judge = writeRewardModel(join(root, "judge"), 272, byteTokenizerFiles());
}, 240_000);

/** Runs two steps, loses the second, and runs on. `run` is asked once to begin and once to go on with a folder. */
async function expectSameAgain(run: (resume?: string) => Promise<{ readonly folder: string }>): Promise<void> {
  const { folder } = await run();
  const before = remainsOf(folder);
  expect(Object.keys(before.files).length).toBeGreaterThan(1);
  rmSync(join(folder, "checkpoints/step-000002"), { recursive: true });
  expect((await run(folder)).folder).toBe(folder);
  expect(remainsOf(folder)).toEqual(before);
}

/** The metrics of all steps, and a digest of each file of weights or state in the last checkpoint. */
function remainsOf(folder: string) {
  const last = join(folder, "checkpoints/step-000002");
  const names = readdirSync(last, { recursive: true, encoding: "utf8" });
  const kept = names.filter((name) => /\.safetensors$|trainer\.json$/.test(name)).sort();
  const digest = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(last, name)))
      .digest("hex");
  const { metrics, loop } = readRemains(folder);
  return { metrics, loop, files: Object.fromEntries(kept.map((name) => [name, digest(name)])) };
}

const rowsOf = (rows: readonly Record<string, string | boolean>[]) => ({ type: "rows" as const, rows: [...rows] });
const letters = [..."abcdefg"];
const pairs = rowsOf(letters.map((prompt) => ({ prompt, chosen: "yes", rejected: "no" })));
const labels = rowsOf(letters.map((prompt, i) => ({ prompt, completion: "yes", label: i % 2 === 0 })));

/** Whoever adds an objective adds its line: the types ask for it. */
const tunings: Readonly<Record<ObjectiveChoice["type"], () => Pick<TuningChanges, "objective" | "data" | "model">>> = {
  supervised: () => ({ objective: { type: "supervised" } }),
  distillation: () => ({ objective: { type: "distillation", teacher: models.bytes } }),
  dpo: () => ({ objective: { type: "dpo" }, data: pairs, model: { preset: "nano", lora: { rank: 4, alpha: 8 } } }),
  ipo: () => ({ objective: { type: "ipo" }, data: pairs }),
  kto: () => ({ objective: { type: "kto" }, data: labels }),
  orpo: () => ({ objective: { type: "orpo" }, data: pairs }),
  simpo: () => ({ objective: { type: "simpo" }, data: pairs }),
  "reward-model": () => ({ objective: { type: "reward-model", centering: 0.01 }, data: pairs }),
};

test.each(Object.keys(tunings) as ObjectiveChoice["type"][])(
  "a tuning run with objective %s goes on to the bit",
  (type) =>
    expectSameAgain((resume) => {
      const changes: TuningChanges = {
        ...tunings[type](),
        name: type,
        loop: { steps: 2, rowsPerStep: 3 },
        training: { optimizer: { lr: 1e-3 }, schedule: { type: "cosine" }, threads: 1 },
        checkpoint: { every: 1, keep: 9 },
      };
      return tune(root, changes, resume);
    }),
);

const rollouts: Readonly<Record<string, () => LakeChanges>> = {
  "PPO with critic, reference and reward model": () => ({
    rewards: { lake: { type: "reward-model", path: models.judge } },
    critic: { warmupUpdates: 1, optimizer: { lr: 1e-3 } },
    algorithm: {
      ...{ type: "ppo", rewardNormalization: {}, truncatedPenalty: 0.5 },
      klReward: { coefficient: 0.1, adaptive: { targetKl: 0.002, horizon: 64 } },
    },
  }),
  "a greedy baseline": () => ({ algorithm: { type: "remax", truncatedPenalty: 0.5 } }),
  "a teacher's log-probs, and replays that bring them along": () => ({
    distillation: { teachers: { default: { type: "folder", path: models.teacher } } },
    replay: { ratio: 0.25 },
    algorithm: { type: "grpo", correction: { importance: { level: "token", threshold: 2 } } },
  }),
  "a teacher's whole distributions": () => ({
    distillation: { teachers: { default: { type: "folder", path: models.teacher } }, form: "full" },
  }),
  "a context as the teacher": () => ({
    distillation: {
      teachers: { default: { type: "self", context: "Up" } },
      ...{ form: "full", divergence: "forward" },
    },
  }),
  "second tries after a reflection": () => ({
    reflection: { successAt: 0.5, perGroup: 2, context: "{reflection}", maxTokens: 2 },
  }),
};

test.each(Object.keys(rollouts))("a run with %s goes on to the bit", (name) =>
  expectSameAgain((resume) => {
    const changes = {
      envs: { lake },
      model: { path: models.policy },
      loop: { type: "sync", steps: 2 },
      rollout: { groupsPerStep: 2 },
      checkpoint: { every: 1, keep: 9 },
      ...rollouts[name]!(),
    } as const;
    return trainLake(root, changes, resume);
  }),
);
