/** One trainer and two ranks of one, on the same batches: the same weights come out. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildEnv } from "../../src/envs/catalog.ts";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { prepareModel } from "../../src/run/prepare-model.ts";
import { openStore } from "../../src/torch/distributed/rendezvous.ts";
import { startTrainer, startTuning } from "../../src/training/start-trainer.ts";
import { startThreadedTrainer } from "../../src/training/threaded-trainer.ts";
import type { Trainer } from "../../src/training/trainer.ts";
import { trainingOptions } from "../../src/training/trainer-options.ts";
import type { TrainerSource } from "../../src/training/trainer-source.ts";
import { exampleConfig } from "../cli/example-run.ts";
import { batchOf } from "./token-batches.ts";

const folder = mkdtempSync(join(tmpdir(), "ranks-"));
const modelFolder = await prepareModel(exampleConfig(), [buildEnv({ type: "frozen-lake" })], folder);
// An epsilon above the rounding of gradients: AdamW divides by their size.
const optimizer = { lr: 1e-3, eps: 1e-3 };
const training = trainingOptions.parse({ optimizer });
let trainers: readonly Trainer[];

const source: TrainerSource = {
  modelFolder,
  tokenizerFolder: modelFolder,
  device: "cpu",
  dtype: "float32",
  lora: null,
  reference: null,
  critic: null,
  algorithm: { type: "grpo" },
  training,
  length: { numUpdates: 10, updatesPerRolloutStep: 1 },
  temperature: 1,
  seed: 1,
  numThreads: 1,
};

const start = (ranks: number, changes: Partial<TrainerSource> = {}) =>
  startTrainer({ ...source, training: { ...training, ranks }, ...changes });

beforeAll(async () => {
  trainers = await Promise.all([start(1), start(2)]);
});

afterAll(async () => {
  await Promise.all(trainers.map((trainer) => trainer.close()));
});

async function largestGap(): Promise<number> {
  const [alone, ranked] = await Promise.all(
    trainers.map((trainer) =>
      trainer.withWeights(async (weights) => [...weights.values()].flatMap((value) => value.reshape(-1).toArray())),
    ),
  );
  return alone!.reduce((most, value, i) => Math.max(most, Math.abs(value - ranked![i]!)), 0);
}

test("supervised steps are shared, of fewer examples than there are ranks too: the weights and losses are those of one trainer", async () => {
  const schedule = { optimizer: training.optimizer, schedule: training.schedule, numUpdates: 2 };
  const objective = { type: "supervised", train: "assistant", chat: true } as const;
  const both = await Promise.all(
    [1, 2].map((ranks) => startTuning({ ...source, ...schedule, objective, training: { ...training, ranks } })),
  );
  const examples = batchOf("mixed", 0).samples.map((sample) => ({ sequences: [sample] }));
  for (const given of [examples, examples.slice(0, 1)]) {
    const [alone, ranked] = await Promise.all(both.map((trainer) => trainer.step(given)));
    expect(ranked!.metrics["train/loss"]).toBeCloseTo(alone!.metrics["train/loss"]!, 5);
  }
  const folders = both.map((_, i) => join(folder, `supervised-${i}`));
  await Promise.all(both.map((trainer, i) => trainer.saveModel(folders[i]!)));
  await Promise.all(both.map((trainer) => trainer.close()));
  const [alone, ranked] = folders.map((path) =>
    loadCausalLm(path)
      .parameters()
      .flatMap((value) => value.reshape(-1).toArray()),
  );
  expect(alone!.reduce((most, value, i) => Math.max(most, Math.abs(value - ranked![i]!)), 0)).toBeLessThan(1e-5);
});

test("a step is shared, and the numbers of every sample come back under its place in the whole batch", async () => {
  const batch = batchOf("mixed", 1);
  const numbersOf = batch.samples.map((_, place) => place);
  const [alone, ranked] = await Promise.all(trainers.map((trainer) => trainer.step(batch, { numbersOf })));
  expect(await largestGap()).toBeLessThan(1e-5);
  expect([...ranked!.numbers!.keys()].sort((a, b) => a - b)).toEqual(numbersOf);
  for (const place of numbersOf) {
    const [one, other] = [alone!.numbers!.get(place)!, ranked!.numbers!.get(place)!];
    expect(other.advantages).toEqual(one.advantages);
    expect(Math.max(...other.policyLogprobs.map((value, i) => Math.abs(value - one.policyLogprobs[i]!)))).toBeLessThan(
      1e-4,
    );
  }
});

test("the metrics of a shared step are those of one trainer with the whole batch", async () => {
  const batch = batchOf("mixed", 2);
  // Rows that count for more: with equal ones the loss of a first update is 0.
  const samples = batch.samples.map((sample, place) => ({ ...sample, weight: 1 + place }));
  const reports = await Promise.all(trainers.map((trainer) => trainer.step({ ...batch, samples })));
  const [alone, ranked] = reports.map(({ metrics }) => metrics);
  expect(Math.abs(alone!["train/loss"]!)).toBeGreaterThan(1e-3);
  expect(Object.keys(ranked!)).toEqual(Object.keys(alone!));
  for (const [name, value] of Object.entries(alone!)) {
    expect(Math.abs(ranked![name]! - value), name).toBeLessThan(5e-5 * Math.max(1, Math.abs(value)));
  }
});

test("a rank without a group of its own has no say in the metrics", async () => {
  const batch = batchOf("mixed", 3);
  const samples = batch.samples.filter(({ group }) => group === batch.samples[0]!.group);
  const [alone, ranked] = await Promise.all(trainers.map((trainer) => trainer.step({ ...batch, samples })));
  expect(ranked!.metrics["train/sampler_gap"]).toBeCloseTo(alone!.metrics["train/sampler_gap"]!, 5);
  expect(ranked!.metrics["policy/entropy"]).toBeCloseTo(alone!.metrics["policy/entropy"]!, 5);
});

test("what a ranked trainer saves, one trainer loads, and the other way around", async () => {
  const [alone, ranked] = trainers;
  const saved = join(folder, "state");
  await ranked!.saveState(saved);
  expect(JSON.parse(readFileSync(join(saved, "trainer.json"), "utf8"))).toMatchObject({ trainer: { numUpdates: 3 } });
  await alone!.loadState(saved);
  await ranked!.loadState(saved);
  expect(await largestGap()).toBe(0);
});

test("a batch that one rank cannot train on fails the step, at once and on all ranks", async () => {
  const ranked = await start(2);
  const batch = batchOf("mixed", 2);
  const bad = batch.samples.map((sample, place) =>
    place === 0 ? { ...sample, tokenIds: sample.tokenIds.map(() => 1e6) } : sample,
  );
  await expect(ranked.step({ ...batch, samples: bad })).rejects.toThrow();
  await expect(ranked.step(batch)).rejects.toThrow("abandoned");
  await ranked.close();
});

test("a rank without the others ends when it is told to", async () => {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const stop = new AbortController();
  const rank = { rank: 0, numRanks: 2, port: store.port! };
  const starting = startThreadedTrainer({ ...source, rank }, stop.signal);
  stop.abort();
  await expect(starting).rejects.toThrow("The trainer's worker was stopped.");
  store.dispose();
});

test("a model that is not there fails the start with the reason of a rank", async () => {
  await expect(start(2, { modelFolder: join(folder, "nowhere") })).rejects.toMatchObject({
    code: "CHECKPOINT_NOT_FOUND",
    message: expect.stringContaining("nowhere"),
  });
});
