/**
 * Does LoRA over quantized weights learn as LoRA over whole ones does, and training with an engine in 8-bit floats as with one that has the
 * trainer's weights? One arm of one seed: a pretrained chat model is asked for stories with three given words (word-task.ts).
 *
 * In: --model <folder> --quantization none|int8|int4|nf4 [--engine none|weights|cache|both] [--rank 16, 0 for all parameters] --seed 1 [--steps 40]. Out: one line of JSON with the share of the words of
 * held-out stories before, halfway and after, the reward of every step, and the gap between sampler and trainer.
 * Usage: npm run bundle -- bench/gpu/quantized-learning.ts, then sh run.sh quantized-learning ... on the GPU machine.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Metrics } from "../../src/flow/metrics.ts";
import { runConfig } from "../../src/run/run-config.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    quantization: { type: "string", default: "none" },
    engine: { type: "string", default: "none" },
    rank: { type: "string", default: "16" },
    seed: { type: "string", default: "1" },
    steps: { type: "string", default: "40" },
    groups: { type: "string", default: "16" },
    "group-size": { type: "string", default: "16" },
    lr: { type: "string", default: "3e-4" },
    "held-out": { type: "string", default: "256" },
  },
});
if (values.model === undefined) throw new Error("--model is missing: the folder of a chat model.");

const [steps, groups, groupSize] = [Number(values.steps), Number(values.groups), Number(values["group-size"])];
const rows = (part: "training" | "validation", count: number) => ({
  type: "rows",
  rows: wordRows(part, count, part === "training" ? 1 : 2),
});
const isOneOf = (word: string, words: readonly string[]) => words.includes(word);
const config = runConfig.parse({
  name: "quantized-learning",
  seed: Number(values.seed),
  model: {
    path: values.model,
    lora: values.rank === "0" ? null : { rank: Number(values.rank) },
    quantization: values.quantization === "none" ? null : values.quantization,
  },
  data: rows("training", 4096),
  rewards: { default: { type: "contains", partial: true } },
  rollout: {
    groupsPerStep: groups,
    groupSize,
    maxInFlight: groups * groupSize,
    contextLength: 256,
    sampling: { maxTokens: 96 },
  },
  engine: {
    maxRunning: groups * groupSize,
    quantization: isOneOf(values.engine, ["weights", "both"]) ? "fp8" : null,
    cacheQuantization: isOneOf(values.engine, ["cache", "both"]) ? "fp8" : null,
  },
  algorithm: {
    type: "grpo",
    ...(values.engine !== "none" && { correction: { importance: { level: "token", threshold: 2 } } }),
  },
  training: { optimizer: { lr: Number(values.lr) }, schedule: { warmup: 3, unit: "rollout-steps" } },
  loop: { type: "sync", steps },
  validation: {
    every: Math.ceil(steps / 2),
    prompts: Number(values["held-out"]),
    temperature: 1,
    data: { ...rows("validation", Number(values["held-out"])), name: "other-words" },
  },
});
const trained: Metrics[] = [];
const heldOut: number[] = [];
const folder = mkdtempSync(join(tmpdir(), "quantized-learning-"));
const startMs = performance.now();
await trainRun(config, {
  folder,
  isResumed: false,
  signal: new AbortController().signal,
  clock: () => performance.now(),
  tracker: {
    ...silentTracker,
    note: (text) => console.error(text),
    log: (step, kind, metrics) => {
      if (kind === "validation") heldOut.push(metrics["validation/reward/mean"] ?? Number.NaN);
      if (kind === "train") trained.push(metrics);
      const reward = metrics["reward/mean"] ?? metrics["validation/reward/mean"];
      console.error(`${kind} ${step}: reward ${reward}, sampler gap ${metrics["train/sampler_gap"] ?? "none"}`);
    },
  },
});
rmSync(folder, { recursive: true });
const column = (name: string) => trained.map((metrics) => metrics[name] ?? Number.NaN);
console.log(
  JSON.stringify({
    quantization: values.quantization,
    engine: values.engine,
    rank: values.rank,
    seed: config.seed,
    steps,
    repliesPerStep: groups * groupSize,
    lr: config.training.optimizer.lr,
    heldOut,
    rewards: column("reward/mean"),
    samplerGaps: column("train/sampler_gap"),
    samplerGapMax: Math.max(...column("train/sampler_gap_max")),
    seconds: (performance.now() - startMs) / 1000,
  }),
);
