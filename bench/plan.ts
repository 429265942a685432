/**
 * What the plan of a run predicts beside what was measured: memory and time on the shapes of bench/results.
 *
 * npm run bench -- plan
 * Bar: memory within 10 %, time within 25 %. Needs no GPU: the measurements are those of gpu-train-step.json, gpu-decode.json and, for whole GRPO steps, gpu-large-model.json
 * (Qwen2.5-7B's shape) and gpu-language-model.json (a chat model of 26M).
 */
import { readFileSync } from "node:fs";
import { type CausalLmConfig, parseConfig } from "../src/models/causal-lm/config.ts";
import { trainerMemory } from "../src/run/estimate-memory.ts";
import { decodeSeconds, forwardSeconds, stepSeconds, trainSeconds } from "../src/run/step-time.ts";
import type { OptimizerOptions } from "../src/training/trainer-options.ts";
import { printTable, writeResult } from "./report.ts";

interface Measured {
  readonly shape: Record<string, unknown>;
  readonly B: number;
  readonly T: number;
  readonly rows: readonly { readonly name: string; readonly msPerStep: number; readonly peakGB: number }[];
  readonly results: readonly {
    readonly what: string;
    readonly B?: number;
    readonly msPerStep?: number;
    /** Absent: those of today. */
    readonly kernels?: string;
  }[];
}

interface LargeModel {
  readonly shape: Record<string, unknown>;
  readonly stages: Readonly<Record<"rollout" | "train", number>>;
  readonly steps: readonly { readonly replyTokens: number }[];
  readonly peakGB: number;
}

interface ChatRun {
  readonly what: string;
  readonly ours: {
    readonly tokens: number;
    readonly steps: number;
    readonly millisecondsPerStep: Readonly<Record<"rollout" | "train", number>>;
  };
}

const CHAT_SHAPE = {
  ...{ model_type: "llama", vocab_size: 6400, hidden_size: 512, intermediate_size: 1408, num_hidden_layers: 8 },
  ...{ num_attention_heads: 8, num_key_value_heads: 2, max_position_embeddings: 32768, rms_norm_eps: 1e-5 },
  ...{ rope_theta: 1_000_000, tie_word_embeddings: true },
};

const read = (name: string): Measured =>
  JSON.parse(readFileSync(new URL(`results/${name}.json`, import.meta.url), "utf8")) as Measured;
const training = read("gpu-train-step");
const decoding = read("gpu-decode");
const model = parseConfig(training.shape, "gpu-train-step.json");
const tokens = training.B * training.T;
const row = (name: string) => training.rows.find((one) => one.name === `reroll, ${name}`)!;

/** A trainer in bfloat16 with AdamW: without a float32 copy, as the benchmark of a step trains, or as a run does. */
function predictedBytes(
  shape: CausalLmConfig,
  recompute: boolean,
  kept: Pick<OptimizerOptions, "masterWeights" | "moments"> = { masterWeights: false, moments: "full" },
): number {
  const optimizer = { lr: 1e-5, betas: [0.9, 0.999] as [number, number], eps: 1e-8, weightDecay: 0, ...kept };
  const config = { model: { lora: null, quantization: null }, training: { optimizer, recompute } };
  const parts = trainerMemory(config, { model: shape, dtype: "bfloat16", isOnGpu: true }, tokens);
  return parts.reduce((sum, { bytes }) => sum + bytes, 0);
}

const largeModel = read("gpu-large-model") as unknown as LargeModel;
const memory = [
  ...(["cross-entropy", "packed", "policy-gradient form", "recomputed"] as const).map((name) => ({
    what: `train step, ${name}, GB`,
    predicted: predictedBytes(model, name === "recomputed") / 1e9,
    measured: row(name).peakGB,
    bar: 0.1,
  })),
  {
    what: "GRPO step of a 7B shape, recomputed, GB",
    predicted:
      predictedBytes(parseConfig(largeModel.shape, "gpu-large-model.json"), true, {
        masterWeights: true,
        moments: "8-bit",
      }) / 1e9,
    measured: largeModel.peakGB,
    bar: 0.1,
  },
];
const plain = { hasAdapters: false, recomputes: false };
const times = [
  ["train step, packed, ms", trainSeconds(model, tokens, plain), row("packed").msPerStep],
  [
    "train step, recomputed, ms",
    trainSeconds(model, tokens, { ...plain, recomputes: true }),
    row("recomputed").msPerStep,
  ],
  ["forward log-probs, ms", forwardSeconds(model, tokens), row("forward log-probs only").msPerStep],
  ...decoding.results
    .filter(({ what, kernels }) => what === "decode" && kernels === undefined)
    .map(({ B, msPerStep }) => [
      `decode step of ${B} sequences at 1,024, ms`,
      decodeSeconds(model, B!, 1024),
      msPerStep!,
    ]),
] as [string, number, number][];
/** Seconds of GRPO steps as wholes. */
function steps(): readonly (readonly [string, number, number])[] {
  const alone = { numTrainers: 1, numEngines: 1, isApart: false };
  const grpo = { maxRunning: 256, microbatchTokens: 16_384, numMeasured: 1, numTrained: 1, hasAdapters: false };
  const large = largeModel;
  const work = { ...grpo, trajectories: 128, groupSize: 8, promptTokens: 40, recomputes: true };
  const replyTokens = large.steps.at(-1)!.replyTokens / 128;
  const shape = parseConfig(large.shape, "gpu-large-model.json");
  const predicted = stepSeconds(shape, { ...work, replyTokens }, alone);
  const chat = parseConfig(CHAT_SHAPE, "minimind2-small");
  const { runs } = read("gpu-language-model") as unknown as { readonly runs: readonly ChatRun[] };
  return [
    ...(["rollout", "train"] as const).map(
      (stage) => [`GRPO step of a 7B shape, ${stage}, ms`, predicted[stage], 1000 * large.stages[stage]] as const,
    ),
    ...runs
      .filter(({ what }) => what.includes("after the cost of an episode was halved"))
      .flatMap(({ what, ours: { tokens: all, steps: count, millisecondsPerStep } }) => {
        const perReply = all / count / 512;
        const small = { ...grpo, trajectories: 512, groupSize: 16, promptTokens: 25, recomputes: false };
        const times = stepSeconds(chat, { ...small, replyTokens: perReply }, alone);
        const kind = what.split(",")[0];
        return (["rollout", "train"] as const).map(
          (stage) => [`GRPO step of 26M, ${kind}, ${stage}, ms`, times[stage], millisecondsPerStep[stage]] as const,
        );
      }),
  ];
}

const compared = [
  ...memory,
  ...[...times, ...steps()].map(([what, seconds, measured]) => ({
    what,
    predicted: 1000 * seconds,
    measured,
    bar: 0.25,
  })),
].map((one) => ({ ...one, error: one.predicted / one.measured - 1 }));

printTable(
  "Plan beside measurement on one H200: Qwen2.5-0.5B, and GRPO steps as wholes",
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
