import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { byteTokenizerFiles } from "../chat/tokenizer/byte-tokenizer.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { addLora, loraAdapters } from "../models/causal-lm/lora.ts";
import { saveLora } from "../models/causal-lm/lora-files.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { noGrad } from "../torch/autograd.ts";
import { Generator } from "../torch/random.ts";
import { tensorScope } from "../torch/scope.ts";
import { exportModel } from "./export-model.ts";
import { findModel } from "./find-model.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "reroll-export-"));
});
afterEach(() => rmSync(root, { recursive: true }));

const VOCABULARY = 272;

/** A run with the base in `model/` and checkpoints as a run writes them. */
function writeRun(steps: readonly number[], best: number | null, save: (folder: string) => void): string {
  const run = join(root, "run");
  const base = createPreset("nano", VOCABULARY, 1);
  saveCausalLm(base, join(run, "model"), { files: byteTokenizerFiles() });
  base.dispose();
  for (const step of steps) {
    const checkpoint = join(run, "checkpoints", `step-${String(step).padStart(6, "0")}`);
    save(join(checkpoint, "model"));
    writeFileSync(join(checkpoint, "loop.json"), JSON.stringify({ step, best: best && { step: best, value: 1 } }));
  }
  return run;
}

function saveWhole(folder: string): void {
  const model = createPreset("nano", VOCABULARY, 2);
  saveCausalLm(model, folder, { files: byteTokenizerFiles() });
  model.dispose();
}

/** Adapters whose change is not nothing: b is 1 everywhere. */
function saveAdapters(folder: string): void {
  const model = createPreset("nano", VOCABULARY, 1);
  const generator = new Generator(3);
  addLora(model, { rank: 2, alpha: 4, targets: ["q_proj"], generator });
  noGrad(() => tensorScope(() => [...loraAdapters(model).values()].forEach(({ b }) => void b.add_(1))));
  saveLora(model, folder);
  generator.dispose();
  model.dispose();
}

test("a merge of what was trained over quantized weights says which base it is merged into", async () => {
  const run = writeRun([10], null, saveAdapters);
  const merge = (out: string) => exportModel({ from: run, out: join(root, out), merge: true });
  writeFileSync(join(run, "config.json"), JSON.stringify({ model: { quantization: "nf4" } }));
  expect(await merge("quantized")).toMatch(
    /merged .* The run held the base in nf4; this is the base as its files have it/,
  );
  writeFileSync(join(run, "config.json"), JSON.stringify({ model: { quantization: null } }));
  expect(await merge("whole")).toMatch(/to \S+$/);
});

test("of a run the best checkpoint is taken, else the latest, or the one that is asked for", () => {
  const run = writeRun([10, 20, 30], 20, (folder) => mkdirSync(folder, { recursive: true }));
  expect(findModel(run).folder).toBe(join(run, "checkpoints/step-000020/model"));
  expect(findModel(run, 10).folder).toBe(join(run, "checkpoints/step-000010/model"));
  expect(() => findModel(run, 15)).toThrow(
    "has no checkpoint of step 15. It has: step-000010, step-000020, step-000030.",
  );
  writeFileSync(join(run, "checkpoints/step-000030/loop.json"), JSON.stringify({ best: null }));
  expect(findModel(run).folder).toBe(join(run, "checkpoints/step-000030/model"));
  expect(findModel(join(run, "checkpoints/step-000010"))).toMatchObject({ runFolder: run, isAdapter: false });
});

test("a path without weights is refused with what it should be", () => {
  expect(() => findModel(join(root, "gone"))).toThrow("does not exist");
  vi.stubEnv("REROLL_HOME", root);
  mkdirSync(join(root, "runs/first"), { recursive: true });
  expect(() => findModel("first")).toThrow(
    `first does not exist. Check the path. Did you mean the run ${join(root, "runs/first")}?`,
  );
  vi.unstubAllEnvs();
  expect(() => findModel(root)).toThrow("Give a model folder, a checkpoint, or a run folder.");
});

test("a whole model is written with its tokenizer, and never over something", async () => {
  const run = writeRun([5], null, saveWhole);
  const out = join(root, "out");
  await exportModel({ from: run, out, merge: false });
  expect(readdirSync(out).sort()).toEqual(readdirSync(join(run, "checkpoints/step-000005/model")).sort());
  await expect(exportModel({ from: run, out, merge: false })).rejects.toThrow(
    `--out ${out} is not empty. Name a new folder.`,
  );
  await expect(exportModel({ from: run, out: join(root, "b"), merge: true })).rejects.toThrow(
    "--merge is for adapters",
  );
});

test("adapters are merged into the model that the run started from: weights + alpha / rank b a", async () => {
  const run = writeRun([5], null, saveAdapters);
  const out = join(root, "out");
  await exportModel({ from: run, out, merge: true });
  expect(existsSync(join(out, "tokenizer.json"))).toBe(true);
  const models = [loadCausalLm(out), loadCausalLm(join(run, "model"))] as const;
  const firstRow = (model: (typeof models)[number]) => {
    const weight = [...model.namedParameters()].find(([name]) => name.includes("qkv"))![1];
    return tensorScope(() => weight.detach().narrow(0, 0, 2).toArray());
  };
  const [merged, base] = models.map(firstRow) as [number[], number[]];
  const change = merged.map((value, i) => value - base[i]!);
  // b is 1, so every row of q changes by 2 (a_0 + a_1): rows 0 and 1 alike, and not by nothing.
  const width = change.length / 2;
  for (let i = 0; i < width; i++) expect(change[i]).toBeCloseTo(change[width + i]!, 5);
  expect(Math.max(...change.map(Math.abs))).toBeGreaterThan(0.01);
  for (const model of models) model.dispose();
});

test("adapters without a known base are refused, or stay adapters", async () => {
  saveAdapters(join(root, "adapters"));
  await expect(exportModel({ from: join(root, "adapters"), out: join(root, "a"), merge: true })).rejects.toThrow(
    "is not recorded. Give its folder with --base.",
  );
  await exportModel({ from: join(root, "adapters"), out: join(root, "b"), merge: false });
  expect(readdirSync(join(root, "b")).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
});
