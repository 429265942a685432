/** Adapters over quantized weights, from run files: they learn as over whole ones, and the engine samples what the trainer trains. */
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainSmall } from "./small-run.ts";

const run = (quantization: "int8" | "nf4" | null, steps: number) => ({
  seed: 2,
  model: { preset: "nano", lora: { rank: 8, alpha: 16 }, quantization },
  envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8 }) } },
  rollout: { groupsPerStep: 16, groupSize: 8, contextLength: 16, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 1e-2 }, minibatch: 64 },
  loop: { type: "sync", steps },
});

test("adapters over 4-bit weights learn a task as those over whole weights do, and the gap to the sampler stays nothing", async () => {
  const whole = await trainSmall(run(null, 10));
  const quantized = await trainSmall(run("nf4", 10));
  const reward = ({ metrics }: typeof whole) =>
    metrics.slice(-3).reduce((sum, step) => sum + step["reward/mean"]! / 3, 0);
  expect(reward(quantized)).toBeGreaterThan(quantized.metrics[0]!["reward/mean"]! + 0.1);
  expect(reward(quantized)).toBeGreaterThan(reward(whole) - 0.1);
  for (const step of quantized.metrics) expect(step["train/sampler_gap_max"]).toBeLessThan(1e-4);
  // What travels to the engine are the adapters.
  expect(quantized.metrics[0]!["sync/bytes"]).toBeLessThan(whole.metrics[0]!["sync/bytes"]! / 2);
});

test("a run over 8-bit weights keeps the gap at nothing too", async () => {
  const { metrics } = await trainSmall(run("int8", 1));
  for (const step of metrics) expect(step["train/sampler_gap_max"]).toBeLessThan(1e-4);
});

test.each([
  [{ lora: null }, {}, /quantized weights cannot be trained. Train adapters over them: set model.lora/],
  [{}, { training: { optimizer: { lr: 1e-2 }, ranks: 2 } }, /Set training.ranks to 1, or leave out model.quantization/],
] as const)("%j with quantization and %j is refused with what to change", async (model, others, message) => {
  const file = { ...run("nf4", 1), device: "cpu", ...others };
  await expect(prepareRun({ ...file, model: { ...file.model, ...model } }, [], {})).rejects.toThrow(message);
});
