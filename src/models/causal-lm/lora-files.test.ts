import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { randint, randn } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { readSafetensorsHeader } from "../formats/safetensors/safetensors-header.ts";
import type { CausalLm } from "./causal-lm.ts";
import { type Family, familyNames } from "./families/table.ts";
import { addLora, type LoraOptions, loraAdapters, mergeLora } from "./lora.ts";
import { loadLora, saveLora } from "./lora-files.ts";
import { packedLayout } from "./token-layout.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-lora-"));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;
function newFolder(): string {
  folders += 1;
  return join(root, `${folders}`);
}

function adapted(family: Family, changes: Partial<LoraOptions> = {}): CausalLm {
  const model = tinyModel(tinyConfig(family));
  const generator = new Generator(8);
  addLora(model, { rank: 3, alpha: 5, targets: "all-linear", generator, ...changes });
  noGrad(() => {
    for (const { b } of loraAdapters(model).values())
      tensorScope(() => b.copy_(randn(b.shape, { generator }).mul(0.3)));
  });
  return model;
}

function hiddenOf(model: CausalLm): Tensor {
  return model.forward(randint(0, 29, [8], { generator: new Generator(3) }), packedLayout([5, 3]));
}

function configOf(folder: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"));
}

describe.each(familyNames)("%s", (family) => {
  test.each<Partial<LoraOptions>>([{}, { useRslora: true }, { targets: ["q_proj", "v_proj"] }, { dtype: "bfloat16" }])(
    "saved, loaded and saved again is the same to the bit, with %j",
    (changes) => {
      // Phi-3 holds query, key and value as one.
      const isJoint = changes.targets !== undefined && family === "phi3";
      const model = adapted(family, isJoint ? { targets: ["qkv_proj"] } : changes);
      const [first, second] = [newFolder(), newFolder()];
      saveLora(model, first, { baseModel: "some/model" });
      const loaded = tinyModel(tinyConfig(family));
      loadLora(loaded, first, changes.dtype === undefined ? {} : { dtype: changes.dtype });
      saveLora(loaded, second, { baseModel: "some/model" });
      for (const name of ["adapter_config.json", "adapter_model.safetensors"]) {
        expect(readFileSync(join(second, name)).equals(readFileSync(join(first, name)))).toBe(true);
      }
      tensorScope(() => {
        expect(hiddenOf(loaded).toArray()).toEqual(hiddenOf(model).toArray());
        expect(loaded.trainableParameters()).toHaveLength(model.trainableParameters().length);
        mergeLora(loaded);
        mergeLora(model);
        expect(hiddenOf(loaded).toArray()).toEqual(hiddenOf(model).toArray());
      });
      model.dispose();
      loaded.dispose();
    },
  );
});

test("the files are in the layout of PEFT", () => {
  const model = adapted("llama", { targets: ["down_proj", "q_proj"] });
  const folder = newFolder();
  saveLora(model, folder, { baseModel: "meta-llama/Llama-3.2-1B" });
  expect(configOf(folder)).toMatchObject({
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: "meta-llama/Llama-3.2-1B",
    r: 3,
    lora_alpha: 5,
    use_rslora: false,
    target_modules: ["q_proj", "down_proj"],
    bias: "none",
  });
  const { tensors } = readSafetensorsHeader(join(folder, "adapter_model.safetensors"));
  expect([...tensors].slice(0, 4).map(([name, { shape }]) => `${name} ${shape}`)).toEqual([
    "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight 3,16",
    "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight 24,3",
    "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight 3,20",
    "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight 16,3",
  ]);
  model.dispose();
});

test("adapters of some layers only are listed by path", () => {
  const model = adapted("llama", { targets: ["layers.1.self_attn.k_proj", "o_proj"] });
  const folder = newFolder();
  saveLora(model, folder);
  expect(configOf(folder).target_modules).toEqual(["o_proj", "model.layers.1.self_attn.k_proj"]);
  const loaded = tinyModel(tinyConfig("llama"));
  loadLora(loaded, folder);
  expect([...loraAdapters(loaded).keys()]).toEqual([...loraAdapters(model).keys()]);
  model.dispose();
  loaded.dispose();
});

/** What PEFT 0.21 writes beside our keys. */
const peftKeys = {
  alora_invocation_tokens: null,
  alpha_pattern: {},
  arrow_config: null,
  auto_mapping: null,
  corda_config: null,
  ensure_weight_tying: false,
  eva_config: null,
  exclude_modules: null,
  kasa_config: null,
  layer_replication: null,
  layers_pattern: null,
  layers_to_transform: null,
  loftq_config: {},
  lora_bias: false,
  lora_ga_config: null,
  megatron_config: null,
  megatron_core: "megatron.core",
  monteclora_config: null,
  peft_version: "0.21.0",
  qalora_group_size: 16,
  revision: null,
  target_parameters: null,
  trainable_token_indices: null,
  use_bdlora: null,
  use_qalora: false,
  velora_config: null,
};

describe("a config that PEFT wrote", () => {
  const model = adapted("llama");
  const folder = newFolder();
  saveLora(model, folder);
  const written = configOf(folder);
  const load = (changes: Record<string, unknown>) => {
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...written, ...changes }));
    const loaded = tinyModel(tinyConfig("llama"));
    try {
      loadLora(loaded, folder);
      return [...loraAdapters(loaded).values()].map(({ scale }) => scale);
    } finally {
      loaded.dispose();
    }
  };

  test("loads with all its keys, and with the whole paths that it writes for all-linear", () => {
    expect(load(peftKeys)).toEqual(new Array(14).fill(5 / 3));
    expect(load({ target_modules: [...loraAdapters(model).keys()] })).toHaveLength(14);
    expect(load({ target_modules: "all-linear" })).toHaveLength(14);
  });

  test.each<[Record<string, unknown>, string]>([
    [{ peft_type: "IA3" }, 'peft_type: got "IA3", allowed "LORA"'],
    [{ r: 0 }, "r: got 0, allowed an integer above 0"],
    [{ lora_alpha: "8" }, 'lora_alpha: got "8", allowed a number above 0'],
    [{ bias: "all" }, 'bias: got "all", allowed "none"'],
    [{ rank_pattern: { q_proj: 2 } }, 'rank_pattern: got {"q_proj":2}, allowed none'],
    [{ alpha_pattern: { q_proj: 2 } }, 'alpha_pattern: got {"q_proj":2}, allowed none'],
    [{ modules_to_save: ["lm_head"] }, 'modules_to_save: got ["lm_head"], allowed none'],
    [{ layers_to_transform: [0] }, "layers_to_transform: got [0], allowed none"],
    [{ use_dora: true }, "use_dora: got true, allowed none"],
    [{ init_lora_weights: "pissa" }, 'init_lora_weights: got "pissa", allowed true, false or "gaussian"'],
    [{ target_modules: [] }, 'target_modules: got [], allowed a list of names or "all-linear"'],
    [{ target_modules: ".*q_proj" }, 'target_modules: got ".*q_proj"'],
    [{ target_modules: ["c_attn"] }, 'targets has "c_attn", which this model has not'],
    [
      { target_modules: ["q_proj"] },
      'has 24 weights that its target_modules give no place in this model, such as "base',
    ],
    [{ r: 4 }, "has shape [3, 16]. Its rank and this model need [4, 16]"],
  ])("with %j is refused with the reason", (changes, message) => {
    expect(() => load(changes)).toThrow(message);
  });
});

test("an adapter of another model is refused, and the model is as it was", () => {
  const folder = newFolder();
  const wide = tinyModel(tinyConfig("llama", { width: 32 }));
  addLora(wide, { rank: 3, alpha: 5, targets: ["q_proj"], generator: new Generator(1) });
  saveLora(wide, folder);
  const model = tinyModel(tinyConfig("llama"));
  expect(() => loadLora(model, folder)).toThrow(
    'weight "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" has shape [3, 32]',
  );
  expect(loraAdapters(model).size).toBe(0);
  expect(model.trainableParameters()).toHaveLength(model.parameters().length);
  wide.dispose();
  model.dispose();
});

test("a folder without an adapter says which file is missing", () => {
  const model = adapted("llama");
  const folder = newFolder();
  expect(() => loadLora(model, folder)).toThrow("There is no");
  saveLora(model, folder);
  expect(() => loadLora(model, folder)).toThrow("has LoRA adapters already");
  rmSync(join(folder, "adapter_model.safetensors"));
  writeFileSync(join(folder, "adapter_model.bin"), "");
  const plain = tinyModel(tinyConfig("llama"));
  expect(() => loadLora(plain, folder)).toThrow("Save adapter_model.bin again as safetensors");
  model.dispose();
  plain.dispose();
});

test("loading leaves nothing behind but the adapters", () => {
  const source = adapted("llama");
  const folder = newFolder();
  saveLora(source, folder);
  source.dispose();
  const model = tinyModel(tinyConfig("llama"));
  const { liveTensors, liveBytes } = memoryStats();
  loadLora(model, folder);
  expect(memoryStats().liveTensors - liveTensors).toBe(28);
  mergeLora(model);
  expect(memoryStats()).toMatchObject({ liveTensors, liveBytes });
  model.dispose();
});
