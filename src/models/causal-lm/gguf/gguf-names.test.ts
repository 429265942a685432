import { expect, test } from "vitest";
import { familyOfArchitecture, ggufTensorRole } from "./gguf-names.ts";

function roleOf(name: string, architecture: string) {
  return ggufTensorRole(name, familyOfArchitecture.get(architecture)!.family);
}

function nameOf(name: string, architecture: string): string {
  const role = roleOf(name, architecture);
  if (role.kind === "experts") return role.nameOf(7);
  return "name" in role ? role.name : role.kind;
}

test.each([
  ["token_embd.weight", "model.embed_tokens.weight"],
  ["output.weight", "lm_head.weight"],
  ["output_norm.weight", "model.norm.weight"],
  ["blk.12.attn_norm.weight", "model.layers.12.input_layernorm.weight"],
  ["blk.12.ffn_norm.weight", "model.layers.12.post_attention_layernorm.weight"],
  ["blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias"],
  ["blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"],
  ["blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"],
  ["blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"],
  ["blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight"],
  ["blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"],
])("%s is %s", (name, expected) => {
  expect(nameOf(name, "llama")).toBe(expected);
  expect(nameOf(name, "qwen2")).toBe(expected);
});

test("only llama's query and key projections are stored in another form", () => {
  const isRestored = (name: string, architecture: string) => {
    const role = roleOf(name, architecture);
    return role.kind === "weight" && role.form !== null;
  };
  expect(isRestored("blk.3.attn_q.weight", "llama")).toBe(true);
  expect(isRestored("blk.3.attn_k.bias", "llama")).toBe(true);
  expect(isRestored("blk.3.attn_v.weight", "llama")).toBe(false);
  expect(isRestored("blk.3.attn_q.weight", "qwen3")).toBe(false);
});

test("head norms belong to qwen3 only", () => {
  expect(nameOf("blk.0.attn_q_norm.weight", "qwen3")).toBe("model.layers.0.self_attn.q_norm.weight");
  expect(nameOf("blk.0.attn_k_norm.weight", "qwen3moe")).toBe("model.layers.0.self_attn.k_norm.weight");
  expect(nameOf("blk.0.attn_q_norm.weight", "qwen2")).toBe("unknown");
});

test("router and experts belong to qwen3moe only", () => {
  expect(nameOf("blk.0.ffn_gate_inp.weight", "qwen3moe")).toBe("model.layers.0.mlp.gate.weight");
  expect(nameOf("blk.0.ffn_down_exps.weight", "qwen3moe")).toBe("model.layers.0.mlp.experts.7.down_proj.weight");
  expect(nameOf("blk.0.ffn_gate_exps.weight", "llama")).toBe("unknown");
  expect(nameOf("blk.0.ffn_gate.weight", "qwen3moe")).toBe("unknown");
});

test("families have architectures of their own, but for mistral and those whose stored form is not read", () => {
  expect([...familyOfArchitecture].map(([architecture, { modelType }]) => [architecture, modelType])).toEqual([
    ["llama", "llama"],
    ["qwen2", "qwen2"],
    ["qwen3", "qwen3"],
    ["qwen3moe", "qwen3_moe"],
    ["gemma2", "gemma2"],
    ["gemma3", "gemma3_text"],
    ["phi3", "phi3"],
    ["olmo2", "olmo2"],
    ["smollm3", "smollm3"],
    ["glm4", "glm4"],
  ]);
});

test("rotary factors are configuration of llama", () => {
  expect(nameOf("rope_freqs.weight", "llama")).toBe("rope-factors");
  expect(nameOf("rope_freqs.weight", "qwen2")).toBe("unknown");
});

test.each([
  "blk.0.attn_qkv.weight",
  "blk.01.attn_q.weight",
  "blk.0.attn_q",
  "blk.0.attn_q.scale",
  "v.blk.0.attn_q.weight",
])("%s is unknown", (name) => expect(nameOf(name, "llama")).toBe("unknown"));
