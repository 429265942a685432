import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { GgufTensor } from "../../formats/gguf/gguf-header.ts";
import type { GgufValue } from "../../formats/gguf/gguf-value.ts";
import { huggingFaceConfigOf } from "./gguf-config.ts";
import { openGgufModel } from "./gguf-model.ts";

const fixture = (name: string) =>
  openGgufModel(fileURLToPath(new URL(`../../../../fixtures/gguf/${name}.gguf`, import.meta.url)));

const shared = {
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 1,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 4,
  vocab_size: 8,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  rope_theta: 1_000_000,
  rope_scaling: null,
  bos_token_id: 1,
  eos_token_id: 2,
};

test("a llama file with biases, its own head and Llama 3 scaling", () => {
  const { rope_scaling, ...config } = fixture("llama").config;
  const { rope_scaling: _, ...expected } = shared;
  expect(config).toEqual({
    ...expected,
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    tie_word_embeddings: false,
    attention_bias: true,
    mlp_bias: false,
  });
  expect(rope_scaling).toMatchObject({ rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 });
});

test("a qwen2 file with tied embeddings and yarn", () => {
  expect(fixture("qwen2").config).toEqual({
    ...shared,
    architectures: ["Qwen2ForCausalLM"],
    model_type: "qwen2",
    tie_word_embeddings: true,
    rope_scaling: { rope_type: "yarn", factor: 4, original_max_position_embeddings: 32 },
  });
});

test("a qwen3 file", () => {
  expect(fixture("qwen3").config).toEqual({
    ...shared,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    tie_word_embeddings: true,
    attention_bias: false,
  });
});

test("a qwen3moe file", () => {
  expect(fixture("qwen3moe").config).toEqual({
    ...shared,
    architectures: ["Qwen3MoeForCausalLM"],
    model_type: "qwen3_moe",
    tie_word_embeddings: false,
    attention_bias: false,
    num_experts: 4,
    num_experts_per_tok: 2,
    moe_intermediate_size: 8,
    norm_topk_prob: true,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  });
});

const embedding: GgufTensor = {
  name: "token_embd.weight",
  shape: [8, 16],
  type: "F32",
  byteOffset: 0,
  byteLength: 512,
};

/** The config of a small qwen3 model with these metadata keys changed; undefined takes one away. */
function configWith(changes: Record<string, GgufValue | undefined>, ropeFactors: Float32Array | null = null) {
  const entries: Record<string, GgufValue | undefined> = {
    "general.architecture": "qwen3",
    "qwen3.embedding_length": 16,
    "qwen3.attention.head_count": 4,
    "qwen3.feed_forward_length": 24,
    "qwen3.block_count": 1,
    "qwen3.context_length": 128,
    "qwen3.attention.layer_norm_rms_epsilon": Math.fround(1e-5),
    ...changes,
  };
  const metadata = new Map<string, GgufValue>();
  for (const [key, value] of Object.entries(entries)) if (value !== undefined) metadata.set(key, value);
  const header = { version: 3, metadata, tensors: new Map([[embedding.name, embedding]]), dataOffset: 0 };
  return huggingFaceConfigOf(header, ropeFactors, "a.gguf");
}

test("values that a file leaves out take llama.cpp's defaults", () => {
  const config = configWith({});
  expect(config.num_key_value_heads).toBe(4);
  expect(config.head_dim).toBe(4);
  expect(config.rope_theta).toBe(10_000);
  expect(config.rope_scaling).toBeNull();
  expect(config.vocab_size).toBe(8);
});

test("single-precision numbers come back as they were written", () => {
  expect(configWith({}).rms_norm_eps).toBe(1e-5);
  expect(configWith({ "qwen3.rope.freq_base": Math.fround(1234567.1) }).rope_theta).toBe(1234567.1);
});

test("a count given per layer is taken when all layers agree", () => {
  expect(configWith({ "qwen3.feed_forward_length": Uint32Array.of(24, 24) }).intermediate_size).toBe(24);
  expect(() => configWith({ "qwen3.feed_forward_length": Uint32Array.of(24, 32) })).toThrow(
    "a.gguf cannot be loaded: qwen3.feed_forward_length differs between layers. Supported: one value for all.",
  );
});

test("scaling is linear when only a factor is given", () => {
  expect(configWith({ "qwen3.rope.scaling.factor": 4 }).rope_scaling).toEqual({ rope_type: "linear", factor: 4 });
  expect(configWith({ "qwen3.rope.scale_linear": 2 }).rope_scaling).toEqual({ rope_type: "linear", factor: 2 });
  expect(configWith({ "qwen3.rope.scaling.factor": 4, "qwen3.rope.scaling.type": "none" }).rope_scaling).toBeNull();
});

test("yarn's own settings are carried over", () => {
  const changes = {
    "qwen3.rope.scaling.type": "yarn",
    "qwen3.rope.scaling.factor": 4,
    "qwen3.rope.scaling.yarn_attn_factor": 1.5,
    "qwen3.rope.scaling.yarn_beta_fast": 16,
    "qwen3.rope.scaling.yarn_beta_slow": 2,
  };
  expect(configWith(changes).rope_scaling).toEqual({
    rope_type: "yarn",
    factor: 4,
    original_max_position_embeddings: 128,
    attention_factor: 1.5,
    beta_fast: 16,
    beta_slow: 2,
  });
  expect(() => configWith({ ...changes, "qwen3.rope.scaling.yarn_ext_factor": 2 })).toThrow(/YaRN without them/);
});

test.each<[string, Record<string, GgufValue | undefined>, RegExp]>([
  [
    "another architecture",
    { "general.architecture": "mamba" },
    /architecture is "mamba". Supported: llama, qwen2, qwen3, qwen3moe, gemma2, gemma3/,
  ],
  ["a part of a split model", { "split.count": 3 }, /it is one of 3 parts/],
  ["experts in a dense architecture", { "qwen3.expert_count": 8 }, /qwen3 model with 8 experts/],
  [
    "partial rotation",
    { "qwen3.rope.dimension_count": 2 },
    /qwen3.rope.dimension_count is 2. Supported: the head size, 4/,
  ],
  ["values of another size", { "qwen3.attention.value_length": 8 }, /qwen3.attention.value_length is 8/],
  [
    "unknown scaling",
    { "qwen3.rope.scaling.type": "longrope", "qwen3.rope.scaling.factor": 2 },
    /"longrope". Supported: none, linear/,
  ],
])("%s is not supported, and the message says what is", (_, changes, message) => {
  expect(() => configWith(changes)).toThrow(message);
  expect(() => configWith(changes)).toThrow(expect.objectContaining({ code: "GGUF_UNSUPPORTED" }));
});

test.each<[string, Record<string, GgufValue | undefined>, RegExp]>([
  ["no width", { "qwen3.embedding_length": undefined }, /it has no metadata key qwen3.embedding_length/],
  ["a width that is a text", { "qwen3.embedding_length": "16" }, /qwen3.embedding_length is not a count/],
  ["an infinite epsilon", { "qwen3.attention.layer_norm_rms_epsilon": Number.POSITIVE_INFINITY }, /is not a number/],
  ["a rotary base of zero", { "qwen3.rope.freq_base": -0 }, /qwen3.rope.freq_base is not above zero/],
  ["no heads", { "qwen3.attention.head_count": 0 }, /qwen3.attention.head_count is not above zero/],
  [
    "key heads that do not divide the query heads",
    { "qwen3.attention.head_count_kv": 3 },
    /4 query heads cannot share 3 key heads/,
  ],
  ["a width that heads do not divide", { "qwen3.embedding_length": 18 }, /head size is 4.5 and must be even/],
  ["odd heads", { "qwen3.attention.key_length": 3 }, /head size is 3 and must be even/],
  [
    "other tokens than rows",
    { "tokenizer.ggml.tokens": ["a"] },
    /embedding has 8 rows for a vocabulary of 1 and 1 tokens/,
  ],
  ["a scaling without factor", { "qwen3.rope.scaling.type": "yarn" }, /but no qwen3.rope.scaling.factor/],
])("metadata with %s is refused", (_, changes, message) => {
  expect(() => configWith(changes)).toThrow(message);
  expect(() => configWith(changes)).toThrow(expect.objectContaining({ code: "GGUF_INVALID" }));
});

test("frequency factors must be Llama 3's and stand alone", () => {
  expect(configWith({}, Float32Array.of(1, 1)).rope_scaling).toBeNull();
  expect(() => configWith({}, Float32Array.of(3, 2))).toThrow(/"rope_freqs.weight" are of an unknown kind/);
  expect(() => configWith({}, Float32Array.of(1))).toThrow(/rope_freqs.weight has 1 values for heads of 4/);
  expect(() => configWith({ "qwen3.rope.scaling.factor": 2 }, Float32Array.of(1, 8))).toThrow(/Supported: one of them/);
});
