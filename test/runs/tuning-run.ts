/** A small tuning run from a run file, start to end, in a folder of its own. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { RunTrainingOptions } from "../../src/run/run-training.ts";
import type { TrainResult } from "../../src/run/train-run.ts";
import { prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { runTuning } from "../../src/tuning/run-tuning.ts";
import { defineTuning } from "../../src/tuning/tuning-config.ts";

type TuningFile = Parameters<typeof defineTuning>[0];

export interface TunedRun {
  readonly folder: string;
  readonly result: TrainResult;
  /** The metrics of the updates and of the validations, in their order. */
  readonly train: readonly Metrics[];
  readonly validation: readonly Metrics[];
  /** All weights at the end. */
  readonly weights: Float32Array;
}

/** A user says something, the assistant answers. */
export function pair(asked: string, reply: string) {
  return {
    messages: [
      { role: "user", content: asked },
      { role: "assistant", content: reply },
    ],
  };
}

export type TuningChanges = Partial<TuningFile>;

/** The smallest run file, with some keys changed. */
export function tuningFile(changes: TuningChanges = {}) {
  return defineTuning({
    name: "tuned",
    device: "cpu",
    model: { preset: "nano" },
    objective: { type: "supervised" },
    data: { type: "rows", rows: [pair("hi", "yo"), pair("is it so?", "no"), pair("why", "because"), pair("a", "b")] },
    contextLength: 64,
    loop: { steps: 2, rowsPerStep: 4 },
    training: { optimizer: { lr: 1e-3 }, threads: 1 },
    ...changes,
  });
}

export async function tune(root: string, changes: TuningChanges = {}, resume?: string): Promise<TunedRun> {
  const tracking = { folder: root, tensorboard: false };
  const run = await prepareTuning(tuningFile({ ...changes, tracking }), [], {});
  const options: RunTrainingOptions = {
    signal: new AbortController().signal,
    ...(resume !== undefined && { resume }),
    version: "test",
    environment: {},
    runFile: "run.ts",
    command: "reroll",
    console: null,
  };
  const result = await runTuning(run, options);
  const folder = join(result.modelFolder, "../../..");
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  const records = lines.map((line) => JSON.parse(line) as { kind: string; metrics: Metrics });
  const of = (kind: string) => records.filter((record) => record.kind === kind).map(({ metrics }) => metrics);
  return { folder, result, train: of("train"), validation: of("validation"), weights: readWeights(result.modelFolder) };
}

/** Runs `use` with a folder that is removed afterwards. */
export async function inFolder<Result>(use: (root: string) => Promise<Result>): Promise<Result> {
  const root = mkdtempSync(join(tmpdir(), "reroll-tuning-"));
  try {
    return await use(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The largest difference between two sets of weights. */
export function gapBetween(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}

/** All numbers of the safetensors files of a folder, which are float32 here. */
export function readWeights(folder: string): Float32Array {
  const files = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
  const parts = files.map((name) => {
    const bytes = readFileSync(join(folder, name));
    return new Float32Array(Uint8Array.from(bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)))).buffer);
  });
  return Float32Array.from(parts.flatMap((part) => [...part]));
}
