/**
 * What the plan of a run predicts beside what was measured: memory and time on the shapes of bench/results.
 *
 * npm run bench -- plan
 * Bar: memory within 10 %, time within 25 %. Needs no GPU: the measurements are those of gpu-train-step.json and gpu-decode.json.
 */
import { readFileSync } from "node:fs";
import { parseConfig } from "../src/models/causal-lm/config.ts";
import { trainerMemory } from "../src/run/estimate-memory.ts";
import { decodeSeconds, forwardSeconds, trainSeconds } from "../src/run/step-time.ts";
import { printTable, writeResult } from "./report.ts";

interface Measured {
  readonly shape: Record<string, unknown>;
  readonly B: number;
  readonly T: number;
  readonly rows: readonly { readonly name: string; readonly msPerStep: number; readonly peakGB: number }[];
  readonly results: readonly { readonly what: string; readonly B?: number; readonly msPerStep?: number }[];
}

const read = (name: string): Measured =>
  JSON.parse(readFileSync(new URL(`results/${name}.json`, import.meta.url), "utf8")) as Measured;
const training = read("gpu-train-step");
const decoding = read("gpu-decode");
const model = parseConfig(training.shape, "gpu-train-step.json");
const tokens = training.B * training.T;
const row = (name: string) => training.rows.find((one) => one.name === `reroll, ${name}`)!;

/** AdamW in bfloat16 without a float32 copy, as the benchmark trains. */
function predictedBytes(recompute: boolean): number {
  const optimizer = {
    ...{ lr: 1e-5, betas: [0.9, 0.999] as [number, number], eps: 1e-8, weightDecay: 0 },
    ...{ masterWeights: false, moments: "full" as const },
  };
  const config = { model: { lora: null, quantization: null }, training: { optimizer, recompute } };
  return trainerMemory(config, { model, dtype: "bfloat16", isOnGpu: true }, tokens).reduce(
    (sum, { bytes }) => sum + bytes,
    0,
  );
}

const memory = (["cross-entropy", "packed", "policy-gradient form", "checkpointed"] as const).map((name) => ({
  what: `train step, ${name}, GB`,
  predicted: predictedBytes(name === "checkpointed") / 1e9,
  measured: row(name).peakGB,
  bar: 0.1,
}));
const plain = { hasAdapters: false, recomputes: false };
const times = [
  ["train step, packed, ms", trainSeconds(model, tokens, plain), row("packed").msPerStep],
  [
    "train step, checkpointed, ms",
    trainSeconds(model, tokens, { ...plain, recomputes: true }),
    row("checkpointed").msPerStep,
  ],
  ["forward log-probs, ms", forwardSeconds(model, tokens), row("forward log-probs only").msPerStep],
  ...decoding.results
    .filter(({ what }) => what === "decode")
    .map(({ B, msPerStep }) => [
      `decode step of ${B} sequences at 1,024, ms`,
      decodeSeconds(model, B!, 1024),
      msPerStep!,
    ]),
] as [string, number, number][];
const compared = [
  ...memory,
  ...times.map(([what, seconds, measured]) => ({ what, predicted: 1000 * seconds, measured, bar: 0.25 })),
].map((one) => ({ ...one, error: one.predicted / one.measured - 1 }));

printTable(
  "Plan beside measurement, Qwen2.5-0.5B on one H200",
  ["", "predicted", "measured", "off by", "bar"],
  compared.map(({ what, predicted, measured, error, bar }) => [
    what,
    predicted.toFixed(2),
    measured.toFixed(2),
    `${(100 * error).toFixed(1)} %`,
    `${100 * bar} %`,
  ]),
);
writeResult("plan", { compared });
if (compared.some(({ error, bar }) => Math.abs(error) > bar)) process.exitCode = 1;
