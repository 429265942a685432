/** Supervised runs, from their run file to their weights. */
import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { explainRun } from "../../src/run/explain-run.ts";
import { exportModel } from "../../src/run/export-model.ts";
import { findModel } from "../../src/run/find-model.ts";
import { evaluateTuning } from "../../src/tuning/evaluate-tuning.ts";
import { prepareTuning, resolveTuning } from "../../src/tuning/prepare-tuning.ts";
import { gapBetween, inFolder, pair, readWeights, type TuningChanges, tune, tuningFile } from "./tuning-run.ts";

/** Of the replies to one question three in four are "a" and one is "b": no model can be surer than that. */
const coins = ["a", "a", "a", "b"].map((side) => pair("flip", side));
/** Entropy of the choice, in nats, spread over the two loss tokens of each reply: the letter, and the end, which is certain. */
const floor = (0.75 * Math.log(4 / 3) + 0.25 * Math.log(4)) / 2;

test("a model learns the replies of its data to their entropy, and the best checkpoint is that of the lowest validation loss", () =>
  inFolder(async (root) => {
    const { train, validation, result } = await tune(root, {
      data: { type: "rows", rows: coins },
      loop: { steps: 60, rowsPerStep: 4 },
      training: { optimizer: { lr: 5e-3 }, schedule: { type: "linear" }, threads: 1 },
      validation: { data: { type: "rows", rows: coins }, every: 20 },
    });
    expect(train[0]!["train/loss"]).toBeGreaterThan(2);
    expect(train.at(-1)!["train/loss"]).toBeGreaterThan(floor - 1e-4);
    expect(train.at(-1)!["train/loss"]).toBeLessThan(floor + 0.01);
    expect(train.at(-1)).toMatchObject({ "experience/rows": 4, "experience/loss_tokens": 8, "train/epoch": 60 });
    const losses = validation.map((metrics) => metrics["validation/loss"]!);
    expect(losses).toHaveLength(4);
    expect(result.best?.value).toBe(Math.min(...losses));
    expect(validation.at(-1)!["validation/supervised/perplexity"]).toBeCloseTo(Math.exp(losses.at(-1)!), 10);
  }));

test("the weights are the same however rows are packed and over however many ranks they are spread", () =>
  inFolder(async (root) => {
    const run = async (name: string, changes: { maxTokensPerMicrobatch?: number; ranks?: number }) => {
      // An epsilon above the rounding of gradients: AdamW divides by their size.
      const training = { optimizer: { lr: 1e-3, eps: 1e-3 }, threads: 1, ...changes };
      return tune(root, { name, training, loop: { steps: 3, rowsPerStep: 3 }, validation: { data: dataOf(coins) } });
    };
    const packed = await run("packed", {});
    // 64 tokens hold one row, and nothing else.
    const single = await run("single", { maxTokensPerMicrobatch: 64 });
    const ranked = await run("ranked", { ranks: 2 });
    for (const other of [single, ranked]) {
      expect(gapBetween(packed.weights, other.weights)).toBeLessThan(1e-6);
      for (const [i, metrics] of packed.train.entries())
        expect(other.train[i]!["train/loss"]).toBeCloseTo(metrics["train/loss"]!, 5);
      expect(other.validation.at(-1)!["validation/loss"]).toBeCloseTo(packed.validation.at(-1)!["validation/loss"]!, 5);
    }
    expect(gapBetween(packed.weights, readWeights(join(packed.folder, "model")))).toBeGreaterThan(1e-4);
  }));

test("adapters are trained alone, exported with their base or merged into it, and evaluated to the loss of the run", () =>
  inFolder(async (root) => {
    const changes: TuningChanges = {
      model: { preset: "nano", lora: { rank: 4, alpha: 8 } },
      loop: { steps: 4, rowsPerStep: 4 },
      training: { optimizer: { lr: 1e-2 }, threads: 1 },
      validation: { data: dataOf(coins) },
    };
    const { folder, validation } = await tune(root, changes);
    const [before, after] = validation.map((metrics) => metrics["validation/loss"]!) as [number, number];
    expect(after).toBeLessThan(before);
    await exportModel({ from: folder, out: join(root, "adapters"), merge: false });
    expect(existsSync(join(root, "adapters", "adapter_config.json"))).toBe(true);
    await exportModel({ from: folder, out: join(root, "merged"), merge: true });
    const prepared = await prepareTuning(tuningFile(changes), [], {});
    for (const from of [folder, join(root, "merged")]) {
      const metrics = await evaluateTuning(findModel(from), prepared);
      expect(metrics["validation/loss"]).toBeCloseTo(after, 5);
    }
  }));

test("updates that are not finite are skipped, and ten in a row end the run with their batch", () =>
  inFolder(async (root) => {
    const training = { optimizer: { lr: 1e30 }, maxGradNorm: 1e30, threads: 1 };
    await expect(tune(root, { training, loop: { steps: 20, rowsPerStep: 4 } })).rejects.toThrow(
      /10 updates in a row were skipped/,
    );
    const lines = readFileSync(join(root, "tuned", "skipped-batch.jsonl"), "utf8")
      .trim()
      .split("\n");
    expect(JSON.parse(lines[0]!).sequences[0].tokenIds.length).toBeGreaterThan(4);
    expect(JSON.parse(readFileSync(join(root, "tuned", "run.json"), "utf8")).status).toBe("failed");
  }));

test("a run with adapters is resumed on its own base only, wherever that has been moved to", () =>
  inFolder(async (root) => {
    const once = { loop: { steps: 1, rowsPerStep: 4 } };
    const [base, other] = [
      join((await tune(root, once)).folder, "model"),
      join((await tune(root, { ...once, seed: 5 })).folder, "model"),
    ];
    const on = (path: string, steps: number) => ({
      model: { path, lora: { rank: 2, alpha: 4 } },
      loop: { steps, rowsPerStep: 4 },
    });
    const { folder } = await tune(root, on(base, 1));
    await expect(tune(root, on(other, 2), folder)).rejects.toThrow(
      `model.path is ${JSON.stringify(other)}, whose weights are not those that the run in ${folder} started from.`,
    );
    cpSync(base, join(root, "moved"), { recursive: true });
    expect((await tune(root, on(join(root, "moved"), 2), folder)).result.position.step).toBe(2);
  }));

test("a run is resumed with its own data only", () =>
  inFolder(async (root) => {
    const { folder } = await tune(root, { checkpoint: { every: 1 } });
    await expect(tune(root, { data: dataOf(coins), loop: { steps: 3, rowsPerStep: 4 } }, folder)).rejects.toThrow(
      /data gives other tokens than when the run was started/,
    );
    await expect(tune(root, { loop: { steps: 3, rowsPerStep: 2 } }, folder)).rejects.toThrow(/loop.rowsPerStep is 2/);
    const resumed = await tune(root, { loop: { steps: 3, rowsPerStep: 4 } }, folder);
    expect(resumed.result.position.step).toBe(3);
  }));

test("a run stops early when validation has not found a lower loss for a while", () =>
  inFolder(async (root) => {
    // Learned the other way round than it is measured, so that the loss rises from the start.
    const { validation, result } = await tune(root, {
      data: dataOf([pair("flip", "a")]),
      loop: { steps: 40, rowsPerStep: 4 },
      training: { optimizer: { lr: 2e-2 }, threads: 1 },
      validation: { data: dataOf([pair("flip", "zzzzzzzzzzzz")]), every: 4, patience: 2 },
    });
    expect(result.position.step).toBeLessThan(40);
    const losses = validation.map((metrics) => metrics["validation/loss"]!);
    expect(losses.slice(-2).every((loss) => loss > Math.min(...losses))).toBe(true);
  }));

test("the plan counts rows, tokens and steps, and explain shows every key", async () => {
  const rows = Array.from({ length: 20 }, (_, i) => pair(`number ${i}`, "ok"));
  const file = tuningFile({ data: dataOf(rows), loop: { epochs: 3, rowsPerStep: 3 }, validation: { share: 0.3 } });
  const { lines, numSteps, data } = await prepareTuning(file, ["contextLength=60"], {});
  const numRows = data.train.examples.length;
  expect(numRows).toBeGreaterThan(10);
  expect(numRows + data.validation!.examples.length).toBe(20);
  expect(numSteps).toBe(numRows);
  expect(lines[0]).toMatch(/^objective supervised: \d+ rows, \d+ tokens, of which \d+ are trained on$/);
  expect(lines[0]).toContain(`of which ${3 * numRows} are`);
  expect(lines[2]).toBe(`${numRows} steps of 3 rows = 3 epochs; learning rate 0.001 constant`);
  const explained = explainRun(resolveTuning(file, ["contextLength=60"], {})).split("\n");
  expect(explained.find((line) => line.startsWith("contextLength"))).toMatch(/60\s+--set$/);
  expect(explained.find((line) => line.startsWith("objective.train"))).toMatch(/assistant.*default$/);
});

function dataOf(rows: readonly ReturnType<typeof pair>[]) {
  return { type: "rows" as const, rows: [...rows] };
}
