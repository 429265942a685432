import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import type { DType } from "../../torch/dtype.ts";
import { memoryStats } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { readSafetensorsHeader } from "../formats/safetensors/safetensors-header.ts";
import { familyNames } from "./families/table.ts";
import { loadCausalLm } from "./load-causal-lm.ts";
import { addLora, loraAdapters, mergeLora } from "./lora.ts";
import { saveCausalLm } from "./save-causal-lm.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-save-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;
function newFolder(): string {
  folders += 1;
  return join(root, `${folders}`);
}

function filesIn(folder: string): Map<string, string> {
  return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "latin1")]));
}

describe.each(familyNames)("%s", (family) => {
  test.each<[string, DType, number | undefined]>([
    ["one file", "float32", undefined],
    ["shards", "float32", 4000],
    ["one bfloat16 file", "bfloat16", undefined],
    ["bfloat16 shards", "bfloat16", 1500],
    ["float16", "float16", undefined],
  ])("saved as %s, loaded and saved again is the same to the bit", (_, dtype, maxShardBytes) => {
    const model = tinyModel(tinyConfig(family), { dtype });
    const options = maxShardBytes === undefined ? {} : { maxShardBytes };
    const [first, second] = [newFolder(), newFolder()];
    saveCausalLm(model, first, options);
    const loaded = loadCausalLm(first, dtype === "float16" ? { dtype } : {});
    expect(loaded.config).toEqual({ ...model.config, dtype });
    expect(loaded.embedding.dtype).toBe(dtype);
    saveCausalLm(loaded, second, options);
    expect(filesIn(second)).toEqual(filesIn(first));
    expect(readdirSync(first).length > 3).toBe(maxShardBytes !== undefined);
    tensorScope(() => {
      const loadedState = loaded.stateDict();
      for (const [path, value] of model.stateDict()) {
        expect(loadedState.get(path)!.toTypedArray()).toEqual(value.toTypedArray());
      }
    });
    model.dispose();
    loaded.dispose();
  });
});

test("the names in the file are those of Hugging Face", () => {
  const folder = newFolder();
  const model = tinyModel(tinyConfig("qwen2", { numLayers: 1, tieEmbeddings: true }));
  saveCausalLm(model, folder);
  const { tensors } = readSafetensorsHeader(join(folder, "model.safetensors"));
  expect([...tensors].map(([name, { shape }]) => `${name} ${shape}`)).toEqual([
    "model.embed_tokens.weight 29,16",
    "model.layers.0.input_layernorm.weight 16",
    "model.layers.0.self_attn.q_proj.weight 24,16",
    "model.layers.0.self_attn.q_proj.bias 24",
    "model.layers.0.self_attn.k_proj.weight 12,16",
    "model.layers.0.self_attn.k_proj.bias 12",
    "model.layers.0.self_attn.v_proj.weight 12,16",
    "model.layers.0.self_attn.v_proj.bias 12",
    "model.layers.0.self_attn.o_proj.weight 16,24",
    "model.layers.0.post_attention_layernorm.weight 16",
    "model.layers.0.mlp.gate_proj.weight 20,16",
    "model.layers.0.mlp.up_proj.weight 20,16",
    "model.layers.0.mlp.down_proj.weight 16,20",
    "model.norm.weight 16",
  ]);
  model.dispose();
});

test("a merged save of a model with adapters is the save of the model with the adapters merged in", () => {
  const [merged, own, first] = [newFolder(), newFolder(), newFolder()];
  const model = tinyModel(tinyConfig("qwen2"));
  saveCausalLm(model, own);
  addLora(model, { rank: 2, alpha: 4, targets: "all-linear", generator: new Generator(1) });
  noGrad(() => tensorScope(() => loraAdapters(model).forEach(({ b }) => void b.add_(0.1))));
  saveCausalLm(model, first);
  expect(filesIn(first)).toEqual(filesIn(own));
  saveCausalLm(model, merged, { isMerged: true });
  mergeLora(model);
  saveCausalLm(model, own);
  expect(filesIn(merged)).toEqual(filesIn(own));
  expect(filesIn(merged)).not.toEqual(filesIn(first));
  model.dispose();
});

test("files beside the weights are written as they are", () => {
  const folder = newFolder();
  const model = tinyModel(tinyConfig("llama"));
  saveCausalLm(model, folder, { files: new Map([["tokenizer.json", Uint8Array.of(1, 2, 3)]]) });
  expect([...readFileSync(join(folder, "tokenizer.json"))]).toEqual([1, 2, 3]);
  model.dispose();
});

test.each([
  [undefined, 4000],
  [4000, undefined],
  [4000, 8000],
])("saving over another model leaves the new one: shards of at most %s bytes, then %s", (before, after) => {
  const folder = newFolder();
  const [old, model] = [tinyModel(tinyConfig("llama")), tinyModel(tinyConfig("llama"), { seed: 2 })];
  saveCausalLm(old, folder, before === undefined ? {} : { maxShardBytes: before });
  saveCausalLm(model, folder, after === undefined ? {} : { maxShardBytes: after });
  const loaded = loadCausalLm(folder);
  expect(tensorScope(() => loaded.embedding.sub(model.embedding).abs().max().item())).toBe(0);
  for (const made of [old, model, loaded]) made.dispose();
});

test("saving and loading leave no tensors behind", () => {
  const model = tinyModel(tinyConfig("qwen3_moe"));
  const folder = newFolder();
  saveCausalLm(model, folder);
  const { liveTensors, liveBytes } = memoryStats();
  noGrad(() => saveCausalLm(model, folder));
  loadCausalLm(folder).dispose();
  expect(memoryStats()).toMatchObject({ liveTensors, liveBytes });
  model.dispose();
});
