/** Every strategy against one rank: three optimizer steps on the same batches give the same weights and metrics. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { startTrainer } from "../../src/training/start-trainer.ts";
import { distance, type Outcome, type ParityCase, sourceOf, train, weightsOf } from "./strategy-parity.ts";
import { batchOf } from "./token-batches.ts";

const folder = mkdtempSync(join(tmpdir(), "strategies-"));

// A case for each strategy and combination; the models, adapters, critics and numbers of ranks are dealt out over them. All with all: bench/strategy-parity.ts.
const cases: readonly (ParityCase & { readonly name: string })[] = [
  { name: "zero 2, a mixture of experts", model: "qwen3-moe", hasCritic: true, ranks: 2, strategy: { zero: 2 } },
  {
    name: "zero 3 with everything in host memory",
    ...{ model: "qwen2", isLora: true, ranks: 2 },
    strategy: { zero: 3, offload: "parameters" },
  },
  { name: "zero 1 and tensor", model: "qwen3-moe", hasCritic: true, ranks: 4, strategy: { zero: 1, tensor: 2 } },
  {
    name: "zero 1 and experts on two of four ranks each",
    ...{ model: "qwen3-moe", hasCritic: true, ranks: 4 },
    strategy: { zero: 1, expert: 2 },
  },
  {
    name: "zero 1, tensor and context, recomputed",
    ...{ model: "qwen2", isLora: true, recompute: true, ranks: 4 },
    strategy: { zero: 1, tensor: 2, context: 2 },
  },
  {
    name: "four stages, recomputed",
    ...{ model: "qwen2", isLora: true, hasCritic: true, recompute: true, isDeep: true, ranks: 4 },
    strategy: { pipeline: 4 },
  },
  {
    name: "zero 1, two stages and tensor, tied at both ends",
    ...{ model: "qwen3", hasCritic: true, ranks: 4 },
    strategy: { zero: 1, pipeline: 2, tensor: 2 },
  },
  {
    name: "zero 1 and offload in processes",
    ...{ model: "qwen3", hasCritic: true, ranks: 2 },
    strategy: { zero: 1, offload: "optimizer", in: "processes" },
  },
];

const known = new Map<string, Promise<Outcome>>();

/** The same on one rank, once for each model. */
function alone(one: ParityCase): Promise<Outcome> {
  const { model, isLora, hasCritic, isDeep } = one;
  const key = JSON.stringify({ model, isLora, hasCritic, isDeep });
  const outcome = known.get(key) ?? train(sourceOf({ ...one, ranks: 1, strategy: {} }));
  known.set(key, outcome);
  return outcome;
}

// Ranks wait for each other at every layer, which takes long where others use the cores too.
vi.setConfig({ testTimeout: 240_000 });

test.each(cases)("$name: weights within 1e-5 and metrics within 1e-6 of one rank", async (one) => {
  const { weights, metrics, worst } = distance(await alone(one), await train(sourceOf(one)));
  expect(weights).toBeLessThan(1e-5);
  expect(metrics, worst).toBeLessThan(1e-6);
});

test("what is saved under one strategy is loaded under another, and goes on as if nothing had changed", async () => {
  const one: ParityCase = { model: "qwen3-moe", hasCritic: true, ranks: 1, strategy: {} };
  const states = ["zero", "dealt"].map((name) => join(folder, name));
  const whole = await alone(one);
  // One step with everything sharded, one with experts dealt out, the last one with every layer dealt.
  const sharded = await startTrainer(sourceOf({ ...one, ranks: 2, strategy: { zero: 3 } }));
  await sharded.step(batchOf("mixed", 0));
  await sharded.saveState(states[0]!);
  await sharded.close();
  const dealt = await startTrainer(sourceOf({ ...one, ranks: 2, strategy: { expert: 2 } }));
  await dealt.loadState(states[0]!);
  await dealt.step(batchOf("mixed", 1));
  await dealt.saveState(states[1]!);
  await dealt.saveModel(join(folder, "model"));
  await dealt.close();
  const last = await startTrainer(sourceOf({ ...one, ranks: 2, strategy: { tensor: 2 } }));
  await last.loadState(states[1]!);
  const { metrics } = await last.step(batchOf("mixed", 2));
  const outcome: Outcome = { weights: await weightsOf(last), metrics: [...whole.metrics.slice(0, 2), metrics] };
  await last.close();
  const { weights, metrics: apart, worst } = distance(whole, outcome);
  expect(weights).toBeLessThan(1e-5);
  expect(apart, worst).toBeLessThan(1e-6);
});
