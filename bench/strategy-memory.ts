/**
 * What each rank holds under each strategy, against what it should: live bytes of weights, gradients and optimizer state, in float32 on the CPU.
 *
 * npm run bench -- strategy-memory
 * Bar: within 10 % of the formula. P are the parameters of a rank's part of the model, of which R are outside of the layers; n ranks have the same part.
 *
 * | strategy | weights | gradients | optimizer |
 * |---|---|---|---|
 * | none | 4 P | 4 P | 8 P |
 * | zero 1, 2 | 4 P | 4 P / n | 8 P / n |
 * | zero 3 | 4 P / n + 4 R | 4 P / n | 8 P / n |
 * | tensor t | as above, P about 1 / t of the model | | |
 * | offload | as above, and 4 P / n for the host's copy of the weights, which with the optimizer's state is in host memory | | |
 *
 * Stages 1 and 2 differ within the backward pass only: with 1, a rank has all gradients until they are summed, with 2 those of one layer.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildEnv } from "../src/envs/catalog.ts";
import { RerollError } from "../src/errors/reroll-error.ts";
import { CausalLm } from "../src/models/causal-lm/causal-lm.ts";
import { saveCausalLm } from "../src/models/causal-lm/save-causal-lm.ts";
import { prepareModel } from "../src/run/prepare-model.ts";
import { tinyConfig } from "../src/testing/tiny-model.ts";
import { openStore } from "../src/torch/distributed/rendezvous.ts";
import { Generator } from "../src/torch/random.ts";
import { trainingOptions } from "../src/training/trainer-options.ts";
import type { TrainerSource } from "../src/training/trainer-source.ts";
import { startInProcess } from "../src/workers/start-in-process.ts";
import { exampleConfig } from "../test/cli/example-run.ts";
import { printTable, writeResult } from "./report.ts";
import type { MemoryRank } from "./strategy-memory-rank.ts";

const folder = mkdtempSync(join(tmpdir(), "strategy-memory-"));
const tokenizerFolder = await prepareModel(exampleConfig(), [buildEnv({ type: "frozen-lake" })], folder);
const modelFolder = join(folder, "model");
const config = {
  ...tinyConfig("qwen3"),
  width: 256,
  mlpWidth: 1024,
  numLayers: 6,
  numHeads: 8,
  numKeyValueHeads: 4,
  headSize: 32,
  vocabSize: 1000,
};
const model = new CausalLm(config).initialize(new Generator(1));
saveCausalLm(model, modelFolder);
const total = model.numParameters();
const outside = total - model.layers.reduce((sum, layer) => sum + layer.numParameters(), 0);
model.dispose();

interface Case {
  readonly ranks: number;
  readonly strategy: {
    readonly zero?: 0 | 1 | 2 | 3;
    readonly tensor?: number;
    readonly offload?: "none" | "optimizer" | "parameters";
  };
}

const cases: readonly Case[] = [
  { ranks: 1, strategy: {} },
  { ranks: 2, strategy: { zero: 1 } },
  { ranks: 2, strategy: { zero: 2 } },
  { ranks: 2, strategy: { zero: 3 } },
  { ranks: 4, strategy: { zero: 3 } },
  { ranks: 2, strategy: { tensor: 2 } },
  { ranks: 4, strategy: { zero: 1, tensor: 2 } },
  { ranks: 1, strategy: { offload: "optimizer" } },
  { ranks: 2, strategy: { zero: 2, offload: "optimizer" } },
];

function formula({ ranks, strategy: { zero = 0, tensor = 1, offload = "none" } }: Case): number {
  const [P, R] = [total / tensor, outside / tensor];
  const n = ranks / tensor;
  const part = zero === 0 ? P : P / n;
  const weights = zero === 3 ? 4 * part + 4 * R : 4 * P;
  const host = offload === "none" ? 0 : 4 * part;
  return weights + host + 4 * part + 8 * part;
}

async function measure({ ranks, strategy }: Case): Promise<readonly number[]> {
  const training = trainingOptions.parse({ optimizer: { lr: 1e-3 }, ranks, strategy });
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
  const source: TrainerSource = {
    ...{ modelFolder, tokenizerFolder, device: "cpu", dtype: "float32", lora: null, reference: null, critic: null },
    ...{ algorithm: { type: "grpo" }, training, length: { numUpdates: 2, updatesPerRolloutStep: 1 } },
    ...{ temperature: 1, seed: 1, numThreads: 1 },
  };
  const lost = (how: string) => new RerollError("WORKER_LOST", `A rank ${how}.`);
  const module = new URL("strategy-memory-rank", import.meta.url);
  const workers = Array.from({ length: ranks }, (_, rank) =>
    startInProcess<MemoryRank>(module, { ...source, rank: { rank, numRanks: ranks, port: store.port! } }, { lost }),
  );
  const live = await Promise.all(workers.map((worker) => worker.ask.measure()));
  await Promise.all(workers.map((worker) => worker.end(lost("has ended"))));
  store.dispose();
  return live;
}

const rows: { readonly name: string; readonly predicted: number; readonly measured: number; readonly ratio: number }[] =
  [];
for (const one of cases) {
  const name = `ranks ${one.ranks} ${JSON.stringify(one.strategy)}`;
  const measured = Math.max(...(await measure(one)));
  const predicted = formula(one);
  rows.push({ name, predicted, measured, ratio: measured / predicted });
}
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(2);
printTable(
  `Live bytes of a rank, ${(total / 1e6).toFixed(1)}M parameters in float32`,
  ["strategy", "formula MB", "measured MB", "ratio"],
  rows.map(({ name, predicted, measured, ratio }) => [
    name,
    megabytes(predicted),
    megabytes(measured),
    ratio.toFixed(3),
  ]),
);
writeResult("strategy-memory", { parameters: total, rows });
process.exit(rows.every(({ ratio }) => Math.abs(ratio - 1) < 0.1) ? 0 : 1);
