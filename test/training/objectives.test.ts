/** What every objective of a tuning run promises: nothing depends on the cut into microbatches, a saved state goes on to the bit, adapters learn. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { TuningExample } from "../../src/flow/tuning-example.ts";
import { prepareModel } from "../../src/run/prepare-model.ts";
import { TuningHost } from "../../src/training/tuning-host.ts";
import { prepareTuning } from "../../src/tuning/prepare-tuning.ts";
import { defineTuning } from "../../src/tuning/tuning-config.ts";

type TuningFile = Parameters<typeof defineTuning>[0];

const root = mkdtempSync(join(tmpdir(), "reroll-objectives-"));
afterAll(() => rmSync(root, { recursive: true }));

const pairs = [
  { prompt: "hi", chosen: "hello you", rejected: "no", margin: 0.5 },
  { prompt: "who?", chosen: "me", rejected: "nobody at all", margin: 1 },
  { prompt: "2+2", chosen: "4", rejected: "5", margin: 2 },
  { prompt: "hi", chosen: "good day", rejected: "what", margin: 0.1 },
];
const scored = pairs.flatMap(({ prompt, chosen, rejected }) => [
  { prompt, completion: chosen, score: 1, label: true },
  { prompt, completion: rejected, score: -0.5, label: false },
]);

const objectives: Readonly<Record<string, { objective: TuningFile["objective"]; rows: Record<string, unknown>[] }>> = {
  supervised: { objective: { type: "supervised" }, rows: scored },
  dpo: { objective: { type: "dpo" }, rows: pairs },
  "length-normalized, smoothed dpo": {
    objective: { type: "dpo", beta: 2, labelSmoothing: 0.1, lengthNormalized: true },
    rows: pairs,
  },
  ipo: { objective: { type: "ipo" }, rows: pairs },
  kto: { objective: { type: "kto", desirableWeight: 1.5 }, rows: scored },
  "kto on pairs": { objective: { type: "kto" }, rows: pairs },
  orpo: { objective: { type: "orpo" }, rows: pairs },
  simpo: { objective: { type: "simpo" }, rows: pairs },
  "bradley-terry": { objective: { type: "reward-model", useMargins: true, centering: 0.01 }, rows: pairs },
  regression: { objective: { type: "reward-model", loss: "regression" }, rows: scored },
};

interface Opened {
  readonly host: TuningHost;
  readonly examples: readonly TuningExample[];
}

/** The trainer of a run file, in this thread, with its examples measured. */
async function open(
  name: keyof typeof objectives,
  { maxTokens = 4096, lora = null }: { maxTokens?: number; lora?: { rank: number; alpha: number } | null } = {},
): Promise<Opened> {
  const { objective, rows } = objectives[name]!;
  const file = defineTuning({
    device: "cpu",
    seed: 3,
    model: { preset: "nano", lora },
    objective,
    data: { type: "rows", rows: rows as [] },
    contextLength: 64,
    // An epsilon above the rounding of gradients: AdamW divides by their size.
    training: { optimizer: { lr: 3e-3, eps: 1e-4 }, maxTokensPerMicrobatch: maxTokens },
  });
  const { config, data } = await prepareTuning(file, [], {});
  const modelFolder = await prepareModel(config, [], mkdtempSync(join(root, "run-")));
  const { optimizer, schedule } = config.training;
  const host = await TuningHost.create({
    modelFolder,
    tokenizerFolder: modelFolder,
    device: "cpu",
    dtype: "float32",
    lora: config.model.lora,
    objective: config.objective,
    reference: null,
    training: config.training,
    optimizer,
    schedule,
    numUpdates: 4,
    seed: config.seed,
  });
  const measured = await host.measure(data.train.examples);
  const examples = data.train.examples.map((example, i) => ({
    ...example,
    numbers: { ...example.numbers, ...measured[i] },
  }));
  return { host, examples };
}

async function steps({ host, examples }: Opened, count: number): Promise<readonly Metrics[]> {
  const metrics: Metrics[] = [];
  for (let i = 0; i < count; i++) metrics.push((await host.step(examples)).metrics);
  return metrics;
}

describe.each(Object.keys(objectives))("%s", (name) => {
  test("the numbers do not depend on the cut into microbatches", async () => {
    const [whole, cut] = [await open(name), await open(name, { maxTokens: 80 })];
    const [expected, got] = [await steps(whole, 3), await steps(cut, 3)];
    expect(expected[2]!["train/loss"]).not.toBeCloseTo(expected[0]!["train/loss"]!, 2);
    for (const [i, metrics] of expected.entries()) expectClose(got[i]!, metrics, 1e-4);
    expectClose(await cut.host.evaluate(cut.examples), await whole.host.evaluate(whole.examples), 1e-4);
    for (const { host } of [whole, cut]) await host.close();
  });

  test("with adapters, a saved state goes on to the bit, and the loss falls", async () => {
    const lora = { rank: 4, alpha: 8 };
    const folder = join(root, `state-${name}`);
    const first = await open(name, { lora });
    const before = await steps(first, 2);
    await first.host.saveState(folder);
    const expected = await steps(first, 2);
    const second = await open(name, { lora });
    await second.host.loadState(folder);
    expect(await steps(second, 2)).toEqual(expected);
    expect(expected[1]!["train/loss"]).toBeLessThan(before[0]!["train/loss"]!);
    for (const { host } of [first, second]) await host.close();
  });
});

test.each(["dpo", "ipo", "kto"])(
  "%s begins with rewards of 0: the reference is the model itself, adapters or not",
  async (name) => {
    for (const lora of [null, { rank: 4, alpha: 8 }]) {
      const { host, examples } = await open(name, { lora });
      const { "preference/margin": margin, "preference/chosen_reward": reward } = await host.evaluate(examples);
      expect(Math.abs(margin!)).toBeLessThan(1e-5);
      expect(Math.abs(reward!)).toBeLessThan(1e-5);
      await steps({ host, examples }, 4);
      expect((await host.evaluate(examples))["preference/margin"]).toBeGreaterThan(1e-3);
      await host.close();
    }
  },
);

function expectClose(got: Metrics, expected: Metrics, tolerance: number): void {
  expect(Object.keys(got)).toEqual(Object.keys(expected));
  for (const [name, value] of Object.entries(expected)) {
    expect(Math.abs(got[name]! - value), name).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(value)));
  }
}
