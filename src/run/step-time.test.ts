import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseConfig } from "../models/causal-lm/config.ts";
import { decodeSeconds, forwardSeconds, type StepWork, stepSeconds, trainSeconds } from "./step-time.ts";

const read = (name: string) => JSON.parse(readFileSync(`bench/results/${name}.json`, "utf8"));
const alone = { numTrainers: 1, numEngines: 1, isApart: false };
const grpo: Omit<StepWork, "trajectories" | "groupSize" | "promptTokens" | "replyTokens"> = {
  ...{
    maxRunning: 256,
    recomputes: false,
    microbatchTokens: 16_384,
    numMeasured: 1,
    numTrained: 1,
    hasAdapters: false,
  },
};

/** The bar of the plan: a quarter. */
function expectNear(predicted: number, measured: number): void {
  expect(predicted / measured).toBeGreaterThan(0.75);
  expect(predicted / measured).toBeLessThan(1.25);
}

test("passes and decode steps of Qwen2.5-0.5B take as long as an H200 took", () => {
  const { shape, B, T, rows } = read("gpu-train-step");
  const model = parseConfig(shape, "gpu-train-step.json");
  const ms = (name: string) => rows.find((row: { name: string }) => row.name === `reroll, ${name}`).msPerStep;
  expectNear(1000 * trainSeconds(model, B * T, { hasAdapters: false, recomputes: false }), ms("packed"));
  expectNear(1000 * trainSeconds(model, B * T, { hasAdapters: false, recomputes: true }), ms("recomputed"));
  expectNear(1000 * forwardSeconds(model, B * T), ms("forward log-probs only"));
  // Rows that name their kernels are of kernels of before.
  for (const { what, kernels, B: count, msPerStep } of read("gpu-decode").results)
    if (what === "decode" && kernels === undefined) expectNear(1000 * decodeSeconds(model, count, 1024), msPerStep);
});

test("a GRPO step of the shape of Qwen2.5-7B, which nothing was fitted to, takes as long as it took", () => {
  const { shape, stages, steps } = read("gpu-large-model");
  const model = parseConfig(shape, "gpu-large-model.json");
  const replyTokens = steps[1].replyTokens / 128;
  const work = { ...grpo, trajectories: 128, groupSize: 8, promptTokens: 40, replyTokens, recomputes: true };
  const { rollout, train, sync } = stepSeconds(model, work, alone);
  expectNear(rollout, stages.rollout);
  expectNear(train, stages.train);
  expectNear(rollout + train + sync, stages.rollout + stages.train + stages.sync);
});

test("a step of SmolLM2-135M trains as fast as its passes were launched", () => {
  const model = parseConfig(
    {
      ...{ model_type: "llama", vocab_size: 49152, hidden_size: 576, intermediate_size: 1536, num_hidden_layers: 30 },
      ...{ num_attention_heads: 9, num_key_value_heads: 3, max_position_embeddings: 8192, rms_norm_eps: 1e-5 },
      ...{ rope_theta: 100000, tie_word_embeddings: true },
    },
    "SmolLM2-135M",
  );
  const { runs } = read("gpu-exact");
  const measured = runs.usual.slice(1).map((row: Record<string, number>) => row["time/train_ms"]!);
  // 32 prompts x 16 samples of up to 96 tokens, of word problems of about 60.
  const work = { ...grpo, trajectories: 512, groupSize: 16, promptTokens: 60, replyTokens: 90 };
  const mean = measured.reduce((sum: number, one: number) => sum + one, 0) / measured.length;
  expectNear(1000 * stepSeconds(model, work, alone).train, mean);
});
