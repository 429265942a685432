import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import type { DType } from "../../torch/dtype.ts";
import { tensorScope } from "../../torch/scope.ts";
import { writeSafetensors } from "../formats/safetensors/write-safetensors.ts";
import { tensorSource } from "../formats/tensor-files.ts";
import type { CausalLm } from "./causal-lm.ts";
import { toHuggingFaceConfig } from "./config.ts";
import { loadCausalLm } from "./load-causal-lm.ts";
import { saveCausalLm } from "./save-causal-lm.ts";
import { namedWeights } from "./weight-names.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-load-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;
function newFolder(): string {
  folders += 1;
  mkdirSync(join(root, `${folders}`));
  return join(root, `${folders}`);
}

/** A folder with some of the weights of a model, under names of the caller's choice. */
function writeFolder(model: CausalLm, rename: (name: string) => string | null, config = {}): string {
  const folder = newFolder();
  tensorScope(() => {
    const sources = namedWeights(model).flatMap(({ name, parameter, viewOf }) => {
      const written = rename(name);
      return written === null ? [] : [tensorSource(written, viewOf(parameter.detach()))];
    });
    writeSafetensors(join(folder, "model.safetensors"), sources);
  });
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...toHuggingFaceConfig(model.config), ...config }));
  return folder;
}

describe("types", () => {
  test.each<[DType, DType]>([
    ["float32", "bfloat16"],
    ["bfloat16", "float32"],
    ["float16", "float32"],
    ["float32", "float64"],
  ])("%s weights are converted to %s on loading", (stored, wanted) => {
    const model = tinyModel(tinyConfig("qwen3"), { dtype: stored });
    const folder = newFolder();
    saveCausalLm(model, folder);
    const loaded = loadCausalLm(folder, { dtype: wanted });
    tensorScope(() => {
      for (const [path, value] of loaded.stateDict()) {
        expect(value.dtype).toBe(wanted);
        expect(value.toTypedArray()).toEqual(model.stateDict().get(path)!.to(wanted).toTypedArray());
      }
    });
    model.dispose();
    loaded.dispose();
  });
});

test("a float16 file is float32 on the CPU unless float16 is asked for", () => {
  const model = tinyModel(tinyConfig("llama"), { dtype: "float16" });
  const folder = newFolder();
  saveCausalLm(model, folder);
  for (const [options, dtype] of [
    [{}, "float32"],
    [{ dtype: "float16" }, "float16"],
  ] as const) {
    const loaded = loadCausalLm(folder, options);
    expect(loaded.embedding.dtype).toBe(dtype);
    loaded.dispose();
  }
  model.dispose();
});

describe("what does not fit is refused", () => {
  const model = tinyModel(tinyConfig("llama"));

  test("a missing weight, with the nearest name there is", () => {
    const folder = writeFolder(model, (name) => name.replace("embed_tokens", "embedding"));
    expect(() => loadCausalLm(folder)).toThrow(
      'has no weight "model.embed_tokens.weight". Nearest name in the file: "model.embedding.weight"',
    );
    const short = writeFolder(model, (name) => (name === "lm_head.weight" ? null : name));
    expect(() => loadCausalLm(short)).toThrow(`Checkpoint ${short} has no weight "lm_head.weight"`);
  });

  test("a weight without a place", () => {
    const folder = writeFolder(model, (name) => name, { num_hidden_layers: 1 });
    expect(() => loadCausalLm(folder)).toThrow(/has 16 weights .* "model.layers.1.input_layernorm.weight"/);
  });

  test("a weight of another shape, with both shapes", () => {
    const folder = writeFolder(model, (name) => name, { intermediate_size: 24 });
    expect(() => loadCausalLm(folder)).toThrow(
      'weight "model.layers.0.mlp.gate_proj.weight" has shape [20, 16], its config says [24, 16]',
    );
  });

  test("a folder without config.json, and one that is not JSON", () => {
    const folder = newFolder();
    expect(() => loadCausalLm(folder)).toThrow(`${folder} has no config.json`);
    writeFileSync(join(folder, "config.json"), "{");
    expect(() => loadCausalLm(folder)).toThrow(`${join(folder, "config.json")} is not JSON`);
  });
});

test("a tied model takes no notice of a stored output matrix", () => {
  const untied = tinyModel(tinyConfig("llama"));
  const folder = writeFolder(untied, (name) => name, { tie_word_embeddings: true });
  const loaded = loadCausalLm(folder);
  expect(loaded.head).toBe(loaded.embedding);
  untied.dispose();
  loaded.dispose();
});

test("the mapped file may be replaced after loading", () => {
  const model = tinyModel(tinyConfig("llama"));
  const folder = newFolder();
  saveCausalLm(model, folder);
  const loaded = loadCausalLm(folder);
  const bytes = readFileSync(join(folder, "model.safetensors"));
  writeFileSync(join(folder, "model.safetensors"), bytes.fill(0));
  expect(tensorScope(() => loaded.embedding.sub(model.embedding).abs().max().item())).toBe(0);
  model.dispose();
  loaded.dispose();
});

describe("GGUF", () => {
  const fixture = (name: string) => fileURLToPath(new URL(`../../../fixtures/gguf/${name}.gguf`, import.meta.url));

  test.each(["llama", "qwen2", "qwen3", "qwen3moe"])("a %s file that llama.cpp's writer made is loaded", (name) => {
    const model = loadCausalLm(fixture(name));
    tensorScope(() => {
      const weights = namedWeights(model);
      // make_fixtures.py numbers the weights by name and counts up within each in steps of 1/1024.
      const sorted = weights.map((weight) => weight.name).sort();
      for (const { name: weightName, parameter, viewOf } of weights) {
        const values = viewOf(parameter.detach()).toArray();
        const first = sorted.indexOf(weightName);
        expect(values).toEqual(values.map((_, i) => Math.fround(first + i / 1024)));
      }
    });
    model.dispose();
  });

  test("YaRN scaling comes with the file", () => {
    const model = loadCausalLm(fixture("qwen2"), { dtype: "bfloat16" });
    expect(model.embedding.dtype).toBe("bfloat16");
    expect(model.config.ropeScaling).toMatchObject({ type: "yarn", factor: 4, originalMaxPositions: 32 });
    model.dispose();
  });
});
