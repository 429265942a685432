import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { RerollError } from "../../errors/reroll-error.ts";
import { tinyConfig } from "../../testing/tiny-model.ts";
import { parseConfig, toHuggingFaceConfig } from "./config.ts";
import { type Family, families, familyNames } from "./families/table.ts";

const fixtures = new URL("../../../fixtures/hf-tiny/", import.meta.url);

const llama = {
  model_type: "llama",
  vocab_size: 260,
  hidden_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  intermediate_size: 128,
  max_position_embeddings: 256,
};
const mixture = {
  ...llama,
  model_type: "qwen3_moe",
  num_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 32,
};

describe("broken configs", () => {
  const yarn = { rope_type: "yarn", factor: 4 };
  const cases: [string, unknown, readonly string[]][] = [
    ["text", "llama", ["config", '"llama"', "object"]],
    ["a list", [], ["config", "[]", "object"]],
    ["no family", { ...llama, model_type: undefined }, ["model_type", "nothing", '"qwen2"']],
    ["an unknown family", { ...llama, model_type: "gpt2" }, ["model_type", '"gpt2"', '"qwen3_moe"']],
    ["no vocabulary", { ...llama, vocab_size: undefined }, ["vocab_size", "nothing", "number"]],
    ["an empty vocabulary", { ...llama, vocab_size: 0 }, ["vocab_size", "got 0", ">0"]],
    ["a width in text", { ...llama, hidden_size: "64" }, ["hidden_size", '"64"', "number"]],
    ["half a layer", { ...llama, num_hidden_layers: 1.5 }, ["num_hidden_layers", "1.5", "int"]],
    ["negative heads", { ...llama, num_attention_heads: -4 }, ["num_attention_heads", "-4", ">0"]],
    ["heads that do not divide", { ...llama, num_key_value_heads: 3 }, ["num_key_value_heads", "4 and 3", "multiple"]],
    ["an odd head size", { ...llama, head_dim: 15 }, ["head_dim", "15", "even"]],
    ["a width that heads do not divide", { ...llama, hidden_size: 66 }, ["hidden_size", "16.5", "even integer"]],
    ["another activation", { ...llama, hidden_act: "gelu" }, ["hidden_act", '"gelu"', '"silu"']],
    ["partial rotation", { ...llama, partial_rotary_factor: 0.5 }, ["partial_rotary_factor", "0.5", "1"]],
    [
      "an unknown scaling",
      { ...llama, rope_scaling: { rope_type: "dynamic" } },
      ['"dynamic"', "default, linear, llama3, yarn, longrope"],
    ],
    ["a scaling without factor", { ...llama, rope_scaling: { type: "linear" } }, ['"linear"', "factor", "none"]],
    [
      "an unknown rope key",
      { ...llama, rope_parameters: { ...yarn, mrope_section: [1] } },
      ["rope_parameters", "mrope_section"],
    ],
    ["a crossed yarn", { ...llama, rope_scaling: { ...yarn, beta_fast: 1, beta_slow: 2 } }, ["beta_fast", "1 and 2"]],
    [
      "two scalings",
      { ...llama, rope_scaling: yarn, rope_parameters: { rope_type: "linear", factor: 2 } },
      ["rope_scaling", '"yarn"', '"linear"', "Remove one"],
    ],
    [
      "kinds of too few layers",
      { ...llama, model_type: "mistral", sliding_window: 8, layer_types: ["sliding_attention"] },
      ["layer_types", "got 1 for 2 layers"],
    ],
    [
      "unknown attention",
      { ...llama, model_type: "qwen3", layer_types: ["linear_attention"] },
      ["layer_types.0", '"linear_attention"', '"full_attention"'],
    ],
    ["a mixture without experts", { ...mixture, num_experts: undefined }, ["num_experts", "none, 2 and 32"]],
    ["more active experts than experts", { ...mixture, num_experts_per_tok: 8 }, ["num_experts_per_tok", "8 and 4"]],
    ["layers without experts", { ...mixture, mlp_only_layers: [0] }, ["mlp_only_layers", "[0]", "Supported"]],
  ];

  test.each(cases)("%s: the error names the key, what came and what is allowed", (_, json, parts) => {
    let error: unknown;
    try {
      parseConfig(json, "model/config.json");
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(RerollError);
    expect(error).toMatchObject({ code: "INVALID_CONFIG" });
    for (const part of ["model/config.json", ...parts]) expect((error as RerollError).message).toContain(part);
  });
});

test.each(familyNames)("a %s config survives being written and read", (family) => {
  for (const slidingWindow of "sliding_window" in families[family].keys.shape ? [null, 7] : [null]) {
    const config = tinyConfig(family, { features: { slidingWindow }, eosTokenIds: [2, 5] });
    expect(parseConfig(toHuggingFaceConfig(config), "config.json")).toEqual(config);
  }
});

test.each([
  { type: "linear", factor: 3 },
  { type: "llama3", factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 32 },
  {
    type: "yarn",
    factor: 4,
    originalMaxPositions: 32,
    betaFast: 24,
    betaSlow: 2,
    attentionFactor: 1.1,
    isTruncated: false,
  },
] as const)("rope scaling $type survives being written and read", (ropeScaling) => {
  const config = tinyConfig("qwen2", { ropeScaling, ropeTheta: 5e5 });
  const written = toHuggingFaceConfig(config);
  expect(parseConfig(written, "config.json")).toEqual(config);
  // The older spelling alone, and the newer alone.
  expect(parseConfig({ ...written, rope_parameters: undefined }, "config.json")).toEqual(config);
  expect(parseConfig({ ...written, rope_scaling: undefined, rope_theta: undefined }, "config.json")).toEqual(config);
});

test.each(readdirSync(fixtures).filter((name) => existsSync(new URL(`${name}/config.json`, fixtures))))(
  "the config of Hugging Face's %s means the same after it is written by us",
  (name) => {
    const path = new URL(`${name}/config.json`, fixtures);
    const config = parseConfig(JSON.parse(readFileSync(path, "utf8")), name);
    expect(parseConfig(toHuggingFaceConfig(config), name)).toEqual(config);
  },
);

describe("what Hugging Face takes for a missing key", () => {
  const windowOf = (json: unknown) => parseConfig(json, "config.json").features.slidingWindow;

  test("mistral slides over 4096 tokens unless its window is null", () => {
    expect(windowOf({ ...llama, model_type: "mistral" })).toBe(4096);
    expect(windowOf({ ...llama, model_type: "mistral", sliding_window: null })).toBeNull();
  });

  test("qwen2 slides only where use_sliding_window says so, from max_window_layers on", () => {
    const qwen = { ...llama, model_type: "qwen2", sliding_window: 8 };
    expect(windowOf(qwen)).toBeNull();
    expect(windowOf({ ...qwen, use_sliding_window: true })).toBeNull();
    expect(windowOf({ ...qwen, use_sliding_window: true, max_window_layers: 0 })).toBe(8);
    const layer_types = ["sliding_attention", "sliding_attention"];
    expect(windowOf({ ...qwen, use_sliding_window: true, layer_types })).toBe(8);
    const { features } = parseConfig({ ...qwen, use_sliding_window: true, max_window_layers: 1 }, "config.json");
    expect(features).toMatchObject({ slidingWindow: 8, fullLayers: [true, false] });
  });

  test("llama has no window", () => {
    expect(windowOf({ ...llama, sliding_window: 8, use_sliding_window: true })).toBeNull();
  });

  test("qwen3 has heads of 128, the others divide their width", () => {
    const sizeOf = (model_type: Family) => parseConfig({ ...llama, model_type }, "config.json").headSize;
    expect(sizeOf("qwen3")).toBe(128);
    expect(sizeOf("qwen2")).toBe(16);
  });

  test("biases of qwen2 are on query, key and value, and mistral has none whatever its config says", () => {
    const biases = (model_type: Family) => {
      const { features } = parseConfig({ ...llama, model_type, attention_bias: true, mlp_bias: true }, "config.json");
      return [features.hasQkvBias, features.hasOutputBias, features.hasMlpBias];
    };
    expect(biases("llama")).toEqual([true, true, true]);
    expect(biases("mistral")).toEqual([false, false, false]);
    expect(biases("qwen2")).toEqual([true, false, false]);
    expect(biases("qwen3")).toEqual([true, true, false]);
  });

  test("yarn stretches to max_position_embeddings, and its attention factor is 0.1 ln(factor) + 1", () => {
    const scaling = (rope_scaling: unknown) => parseConfig({ ...llama, rope_scaling }, "config.json").ropeScaling;
    const plain = { type: "yarn", betaFast: 32, betaSlow: 1, isTruncated: true };
    expect(scaling({ type: "yarn", original_max_position_embeddings: 64 })).toEqual({
      ...plain,
      factor: 4,
      originalMaxPositions: 64,
      attentionFactor: 0.1 * Math.log(4) + 1,
    });
    expect(scaling({ type: "yarn", factor: 2, mscale: 1, mscale_all_dim: 0.5 })).toEqual({
      ...plain,
      factor: 2,
      originalMaxPositions: 256,
      attentionFactor: (0.1 * Math.log(2) + 1) / (0.05 * Math.log(2) + 1),
    });
  });
});
