/** Engines in 8-bit floats: another policy than the one that is trained, which runs correct for, and learn all the same. */
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { trainSmall } from "./small-run.ts";

const correction = { importance: { level: "token", threshold: 2 } } as const;
const fp8 = { quantization: "fp8", cacheQuantization: "fp8" } as const;

const run = (engine: object, steps: number, others: object = {}) => ({
  seed: 1,
  device: "cpu",
  model: { preset: "nano" },
  envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8 }) } },
  engine,
  algorithm: { type: "grpo", correction },
  rollout: { groupsPerStep: 32, groupSize: 8, contextLength: 16, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 2e-3 }, minibatch: 64 },
  loop: { type: "sync", steps },
  ...others,
});

test("a run whose engine has weights and cache in 8-bit floats learns as without, and its gap is shown and corrected", async () => {
  const { metrics, plan } = await trainSmall(run(fp8, 16));
  expect(plan).toContain("the engine holds its linear layers, and its keys and values in 8-bit floats");
  expect(metrics[0]!["reward/mean"]).toBeLessThan(0.2);
  // What test/runs/learning.test.ts asks of the same run with an engine that has the trainer's weights.
  expect(metrics.at(-1)!["reward/mean"]).toBeGreaterThan(0.6);
  for (const step of metrics) {
    // Beyond what float32 kernels differ by. That rewards of its tokens rise shows that every publication has made it anew.
    expect(step["train/sampler_gap"]).toBeGreaterThan(1e-4);
    expect(step["train/sampler_gap"]).toBeLessThan(0.2);
    expect(step["rollout_corr/rollout_is_std"]).toBeGreaterThan(0);
  }
});

test("weights and cache go to 8 bits apart, and adapters over weights in 8 bits are trained too", async () => {
  const gapOf = async (engine: object, others?: object) => {
    const rollout = { groupsPerStep: 4, groupSize: 4, contextLength: 16, sampling: { maxTokens: 4 } };
    const { metrics } = await trainSmall(run(engine, 2, { rollout, training: { optimizer: { lr: 2e-3 } }, ...others }));
    return metrics.at(-1)!["train/sampler_gap"];
  };
  expect(await gapOf({})).toBeLessThan(1e-5);
  expect(await gapOf({ cacheQuantization: "fp8" })).toBeGreaterThan(1e-5);
  expect(await gapOf({ quantization: "fp8" })).toBeGreaterThan(1e-4);
  const lora = { model: { preset: "nano", lora: { rank: 4 } } };
  const adapted = await gapOf({ quantization: "fp8" }, lora);
  expect(adapted).toBeGreaterThan(1e-4);
  expect(adapted).toBeLessThan(0.2);
});

test("without a correction such an engine is refused, and so is what it cannot go with", async () => {
  const problemOf = (config: Record<string, unknown>) =>
    prepareRun(config, [], {}).then(
      () => null,
      (error: Error) => error.message,
    );
  const uncorrected = { algorithm: { type: "grpo" } };
  expect(await problemOf(run({ quantization: "fp8" }, 1, uncorrected))).toBe(
    'engine.quantization is "fp8", and nothing corrects for it: tokens are drawn with other probabilities than the trainer has for them. ' +
      'Set algorithm.correction to { importance: { level: "token", threshold: 2 } }, or leave engine.quantization out.',
  );
  expect(await problemOf(run({ cacheQuantization: "fp8" }, 1, uncorrected))).toContain(
    "leave engine.cacheQuantization out",
  );
  const remote = { kind: "reroll", url: "http://127.0.0.1:1" };
  expect(await problemOf(run({ ...fp8, remote }, 1))).toContain("engine.remote is set");
  const split = { placement: { engine: { tensor: 2 } } };
  expect(await problemOf(run(fp8, 1, split))).toContain("placement.engine splits engines");
  const quantized = { model: { preset: "nano", lora: { rank: 4 }, quantization: "nf4" } };
  expect(await problemOf(run(fp8, 1, quantized))).toContain('model.quantization is "nf4", which the engine');
  expect(await problemOf(run({ cacheQuantization: "fp8" }, 1, quantized))).toBeNull();
});
