/** Runs from run files on models of today: the engine samples what the trainer trains, whatever the layers of the family are. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import type { Family } from "../../src/models/causal-lm/families/table.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { trainSmall } from "./small-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-families-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The folder of a tiny model that reads bytes, in sizes that can be quantized. */
function modelOf(family: Family): string {
  const { linearAttention } = tinyConfig(family).features;
  const slides = family === "gemma3_text" || family === "gpt_oss";
  const features = {
    ...(slides && { slidingWindow: 20, fullLayers: [false, true] }),
    linearAttention: linearAttention && { ...linearAttention, keySize: 8, valueSize: 8 },
  };
  const sizes = {
    vocabSize: 272,
    width: 32,
    headSize: 8,
    maxPositions: 256,
    ...(family === "qwen3_5_text" && { mlpWidth: 64 }),
  };
  const model = tinyModel(tinyConfig(family, { ...sizes, features }));
  saveCausalLm(model, join(folder, family), { files: byteTokenizerFiles() });
  model.dispose();
  return join(folder, family);
}

const file = (family: Family, model: object = {}) => ({
  seed: 3,
  model: { path: modelOf(family), ...model },
  data: { type: "rows", rows: ["one", "three", "a bit more than that"].map((prompt) => ({ prompt })) },
  rewards: {
    default: { type: "custom", name: "uneven", score: ({ reply }: { reply: string }) => ({ value: reply.length % 7 }) },
  },
  rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 128, sampling: { maxTokens: 24 } },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 2 },
});

test.each<[string, Family, object]>([
  ["Gemma 3 with adapters", "gemma3_text", { lora: { rank: 4 } }],
  ["gpt-oss", "gpt_oss", {}],
  ["Qwen3-Next", "qwen3_next", {}],
  ["Qwen3.5 with adapters over 4-bit weights", "qwen3_5_text", { lora: { rank: 4 }, quantization: "nf4" }],
])("%s: a run samples with the log-probs of its trainer, before and after an update", async (_name, family, model) => {
  const { metrics } = await trainSmall(file(family, model));
  const gaps = metrics.map((step) => ({ mean: step["train/sampler_gap"]!, most: step["train/sampler_gap_max"]! }));
  // A single token may fall where a layer enlarges rounding: the states of Qwen3-Next do, by what kernels and seed make of them.
  expect(gaps.map(({ mean, most }) => mean < 5e-5 && most < 5e-4)).toEqual([true, true]);
  expect(metrics.every((step) => step["train/grad_norm"]! > 0)).toBe(true);
});
