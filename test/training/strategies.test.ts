/** Every strategy against one rank: three optimizer steps on the same batches give the same weights and metrics. */
import { mkdtempSync, readdirSync } from "node:fs";
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
function aloneOutcome(one: ParityCase): Promise<Outcome> {
  const { model, isLora, hasCritic, isDeep } = one;
  const key = JSON.stringify({ model, isLora, hasCritic, isDeep });
  const outcome = known.get(key) ?? train(sourceOf({ ...one, ranks: 1, strategy: {} }));
  known.set(key, outcome);
  return outcome;
}

// Ranks wait for each other at every layer, which takes long where others use the cores too.
vi.setConfig({ testTimeout: 240_000 });

test.each(cases)("$name: weights within 1e-5 and metrics within 1e-6 of one rank", async (one) => {
  const { weights, metrics, worst } = distance(await aloneOutcome(one), await train(sourceOf(one)));
  expect(weights).toBeLessThan(1e-5);
  expect(metrics, worst).toBeLessThan(1e-6);
});

test("what ranks saved in shards goes on to the bit in the same layout, and as if nothing had changed in others", async () => {
  const one: ParityCase = { model: "qwen3-moe", hasCritic: true, ranks: 1, strategy: {} };
  const sharded: ParityCase = { ...one, ranks: 2, strategy: { zero: 3 } };
  const [first, second, whole] = ["first", "second", "whole"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const start = async (layout: ParityCase, from: string | null) => {
    const trainer = await startTrainer(sourceOf(layout));
    if (from !== null) await trainer.loadState(from);
    return trainer;
  };
  const unstopped = await start(sharded, null);
  await unstopped.step(batchOf("mixed", 0));
  await unstopped.saveState(first);
  await unstopped.step(batchOf("mixed", 1));
  const expected = await weightsOf(unstopped);
  await unstopped.close();
  // Each rank has files of its own; the critic is in shards too.
  const names = [0, 1].flatMap((rank) => [`optimizer-${rank}-of-2.json`, `optimizer-${rank}-of-2.safetensors`]);
  for (const part of ["policy", "critic"]) expect(readdirSync(join(first, part)).sort()).toEqual(names);
  const resumed = await start(sharded, first);
  await resumed.step(batchOf("mixed", 1));
  expect(await weightsOf(resumed)).toEqual(expected);
  await resumed.saveState(second);
  await resumed.close();
  // Two ranks with everything sharded, one process, four ranks with layers dealt out in two ways.
  const alone = await start(one, second);
  await alone.saveState(whole);
  await alone.close();
  const dealt = await start({ ...one, ranks: 4, strategy: { tensor: 2, pipeline: 2 } }, whole);
  const { metrics } = await dealt.step(batchOf("mixed", 2));
  const known = await aloneOutcome(one);
  const outcome: Outcome = { weights: await weightsOf(dealt), metrics: [...known.metrics.slice(0, 2), metrics] };
  await dealt.close();
  const { weights, metrics: apart, worst } = distance(known, outcome);
  expect(weights).toBeLessThan(1e-5);
  expect(apart, worst).toBeLessThan(1e-6);
});
