/**
 * A model loaded from GGUF is the model loaded from its Hugging Face folder: to the bit from F32, nearly from Q8_0.
 *
 * The files are written here, by a writer of our own that knows the format from llama.cpp's documentation, so that the
 * reader is not tested against itself.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../src/models/causal-lm/config.ts";
import { type LoadOptions, loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { namedWeights } from "../../src/models/causal-lm/weight-names.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { cat, tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { concatBytes, float32, type GgufEntry, ggufBytes, text, uint32 } from "../fuzz/gguf-bytes.ts";

const folder = fileURLToPath(new URL("../../fixtures/hf-tiny", import.meta.url));
const root = mkdtempSync(join(tmpdir(), "reroll-gguf-"));
afterAll(() => rmSync(root, { recursive: true }));

type Quantization = "F32" | "Q8_0";

const architectures = {
  llama: "llama",
  mistral: "llama",
  qwen2: "qwen2",
  qwen3: "qwen3",
  qwen3_moe: "qwen3moe",
  gemma2: "gemma2",
  gemma3_text: "gemma3",
  phi3: "phi3",
  olmo2: "olmo2",
  smollm3: "smollm3",
  glm4: "glm4",
} as const;

function architectureOf({ family }: CausalLmConfig): string {
  if (family in architectures) return architectures[family as keyof typeof architectures];
  throw new Error(`GGUF files do not hold ${family} models`);
}

const exact = ["llama", "llama3-rope", "mistral", "qwen2", "qwen3", "qwen3-moe", "phi3", "olmo2", "smollm3", "glm4"];

describe.each([...exact, "gemma2", "gemma3-text"])("%s", (name) => {
  const ids: number[][] = JSON.parse(readFileSync(join(folder, name, "golden.json"), "utf8")).ids;

  function logitsOf(model: CausalLm): number[] {
    return tensorScope(() =>
      noGrad(() => {
        const flat = Int32Array.from(ids.flat());
        const ids_S = tensor(flat, [flat.length], { dtype: "int64" });
        return model.logits(model.forward(ids_S, packedLayout(ids.map((row) => row.length)))).toArray();
      }),
    );
  }

  function throughGguf(quantization: Quantization, options: LoadOptions = {}): { expected: number[]; got: number[] } {
    const fromFolder = loadStorable(join(folder, name));
    const path = join(root, `${name}-${quantization}.gguf`);
    writeFileSync(
      path,
      tensorScope(() => modelBytes(fromFolder, quantization)),
    );
    const fromGguf = loadCausalLm(path, options);
    const logits = { expected: logitsOf(fromFolder), got: logitsOf(fromGguf) };
    fromFolder.dispose();
    fromGguf.dispose();
    return logits;
  }

  test("F32 gives the same logits", () => {
    const { expected, got } = throughGguf("F32");
    // Norms that are stored with 1 added come back rounded.
    if (name.startsWith("gemma"))
      expect(Math.max(...got.map((value, i) => Math.abs(value - expected[i]!)))).toBeLessThan(1e-5);
    else expect(got).toEqual(expected);
  });

  // Rows of the others are no whole number of blocks.
  test.runIf(name === "llama")("int8 weights hold the blocks of Q8_0 as they are", () => {
    const { got: expanded } = throughGguf("Q8_0");
    const { got: held } = throughGguf("Q8_0", { quantization: "int8" });
    expect(Math.max(...held.map((value, i) => Math.abs(value - expanded[i]!)))).toBeLessThan(1e-5);
  });

  test("Q8_0 gives nearly the same", () => {
    const { expected, got } = throughGguf("Q8_0");
    const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value * value, 0);
    const error = Math.sqrt(squares(got.map((value, i) => value - expected[i]!)) / squares(expected));
    expect(error).toBeGreaterThan(0);
    // A token whose experts are nearly even may go to another one.
    expect(error).toBeLessThan(name === "qwen3-moe" ? 0.06 : 0.03);
  });
});

/** The model of a folder, but with the features that a GGUF file cannot state as llama.cpp takes them to be. */
function loadStorable(path: string): CausalLm {
  const model = loadCausalLm(path);
  const { config } = model;
  const { attentionScale, unrotatedLayers } = config.features;
  if (attentionScale === null && unrotatedLayers === null) return model;
  const features = {
    ...config.features,
    attentionScale: attentionScale === null ? null : config.headSize ** -0.5,
    // Gemma 3 slides but in every sixth layer.
    fullLayers: config.family === "gemma3_text" ? null : config.features.fullLayers,
    unrotatedLayers: unrotatedLayers === null ? null : unrotatedLayers.map((_, layer) => layer % 4 === 3),
  };
  const storable = new CausalLm({ ...config, features });
  tensorScope(() => storable.loadStateDict(model.stateDict()));
  model.dispose();
  return storable;
}

/** A whole file: metadata, then every weight under llama.cpp's name. */
function modelBytes(model: CausalLm, quantization: Quantization): Uint8Array {
  const weights = [...ggufWeights(model)];
  let offset = 0;
  const pieces: Uint8Array[] = [];
  const tensors = weights.map(({ name, value }) => {
    // llama.cpp keeps vectors and routers in float32, and rows that are no whole number of blocks.
    const isExact = value.shape.length === 1 || name.includes("ffn_gate_inp") || value.size(-1) % 32 !== 0;
    const type = isExact ? "F32" : quantization;
    const bytes = type === "F32" ? new Uint8Array(value.toFloat32Array().buffer) : q8Bytes(value.toFloat32Array());
    const padded = concatBytes(bytes, new Uint8Array((32 - (bytes.byteLength % 32)) % 32));
    const entry = { name, dimensions: value.shape.toReversed(), type: type === "F32" ? 0 : 8, offset };
    pieces.push(padded);
    offset += padded.byteLength;
    return entry;
  });
  return ggufBytes({ metadata: metadataOf(model.config), tensors, data: concatBytes(...pieces) });
}

function metadataOf(config: CausalLmConfig): GgufEntry[] {
  const architecture = architectureOf(config);
  const count = (key: string, value: number) => ({ key: `${architecture}.${key}`, type: 4, value: uint32(value) });
  const number = (key: string, value: number) => ({ key: `${architecture}.${key}`, type: 6, value: float32(value) });
  const { experts, slidingWindow, rotarySize, attentionSoftCap, scoreSoftCap } = config.features;
  return [
    { key: "general.architecture", type: 8, value: text(architecture) },
    count("block_count", config.numLayers),
    count("context_length", config.maxPositions),
    count("embedding_length", config.width),
    count("feed_forward_length", config.mlpWidth),
    count("attention.head_count", config.numHeads),
    count("attention.head_count_kv", config.numKeyValueHeads),
    count("attention.key_length", config.headSize),
    number("attention.layer_norm_rms_epsilon", config.normEps),
    number("rope.freq_base", config.ropeTheta),
    count("rope.dimension_count", rotarySize ?? config.headSize),
    ...(attentionSoftCap === null ? [] : [number("attn_logit_softcapping", attentionSoftCap)]),
    ...(scoreSoftCap === null ? [] : [number("final_logit_softcapping", scoreSoftCap)]),
    ...(slidingWindow === null ? [] : [count("attention.sliding_window", slidingWindow)]),
    ...(experts === null
      ? []
      : [
          count("expert_count", experts.numExperts),
          count("expert_used_count", experts.numActive),
          count("expert_feed_forward_length", experts.width),
        ]),
  ];
}

interface Weight {
  readonly name: string;
  readonly value: Tensor;
}

function* ggufWeights(model: CausalLm): Iterable<Weight> {
  const { config } = model;
  const isLlama = ["llama", "smollm3"].includes(architectureOf(config));
  const isGemma = architectureOf(config).startsWith("gemma");
  const stacks = new Map<string, Tensor[]>();
  for (const { name, parameter, viewOf } of namedWeights(model)) {
    const value = viewOf(parameter.detach());
    const renamed = config.features.hasOutputNorms ? outputNormName(name, config) : ggufName(name);
    if (name.includes(".experts.")) stacks.set(renamed, [...(stacks.get(renamed) ?? []), value]);
    else if (isLlama && name.includes("q_proj")) yield { name: renamed, value: interleaved(value, config.numHeads) };
    else if (isLlama && name.includes("k_proj"))
      yield { name: renamed, value: interleaved(value, config.numKeyValueHeads) };
    else yield { name: renamed, value: isGemma && name.includes("norm") ? value.add(1) : value };
  }
  for (const [name, values] of stacks) yield { name, value: cat(values.map((value) => value.unsqueeze(0))) };
  const { ropeScaling } = config;
  if (ropeScaling.type === "llama3") yield { name: "rope_freqs.weight", value: llama3Factors(config) };
}

const partNames: readonly (readonly [string, string])[] = [
  ["model.embed_tokens", "token_embd"],
  ["model.norm", "output_norm"],
  ["lm_head", "output"],
  ["model.layers", "blk"],
  ["input_layernorm", "attn_norm"],
  ["post_attention_layernorm", "ffn_norm"],
  ["self_attn.q_proj", "attn_q"],
  ["self_attn.k_proj", "attn_k"],
  ["self_attn.v_proj", "attn_v"],
  ["self_attn.o_proj", "attn_output"],
  ["self_attn.q_norm", "attn_q_norm"],
  ["self_attn.k_norm", "attn_k_norm"],
  ["self_attn.qkv_proj", "attn_qkv"],
  ["mlp.gate_up_proj", "ffn_up"],
  ["mlp.gate_proj", "ffn_gate"],
  ["mlp.up_proj", "ffn_up"],
  ["mlp.down_proj", "ffn_down"],
  ["mlp.gate.", "ffn_gate_inp."],
];

function ggufName(name: string): string {
  const stacked = name.replace(/mlp\.experts\.\d+\.(\w+)_proj/, "ffn_$1_exps");
  return partNames.reduce((renamed, [from, to]) => renamed.replace(from, to), stacked);
}

/** Norms of what attention and MLP give: GLM-4 has other names for them than Gemma and OLMo 2. */
function outputNormName(name: string, { family }: CausalLmConfig): string {
  if (family === "glm4") {
    return ggufName(
      name.replace("post_self_attn_layernorm", "post_attention_norm").replace("post_mlp_layernorm", "post_ffw_norm"),
    );
  }
  return ggufName(
    name
      .replace("post_attention_layernorm", "post_attention_norm")
      .replace("pre_feedforward_layernorm", "ffn_norm")
      .replace("post_feedforward_layernorm", "post_ffw_norm"),
  );
}

/** llama.cpp's order of a llama head: the first half at even rows, the second at odd ones. */
function interleaved(rows: Tensor, numHeads: number): Tensor {
  const [total, ...rest] = rows.shape;
  const half = total! / numHeads / 2;
  return rows
    .reshape(numHeads, 2, half, ...rest)
    .transpose(1, 2)
    .reshape(total!, ...rest);
}

/** What llama.cpp's converter stores for Llama 3: what each frequency is divided by. */
function llama3Factors({ headSize, ropeTheta, ropeScaling }: CausalLmConfig): Tensor {
  if (ropeScaling.type !== "llama3") throw new Error("not a llama3 config");
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = ropeScaling;
  const factors = Float32Array.from({ length: headSize / 2 }, (_, k) => {
    const turns = originalMaxPositions / (2 * Math.PI * ropeTheta ** ((2 * k) / headSize));
    if (turns < lowFreqFactor) return factor;
    if (turns > highFreqFactor) return 1;
    const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return 1 / ((1 - smooth) / factor + smooth);
  });
  return tensor(factors, [factors.length]);
}

/** Q8_0: per 32 values a float16 scale, the largest magnitude over 127, and 32 signed bytes. */
function q8Bytes(values: Float32Array): Uint8Array {
  const blocks = Array.from({ length: values.length / 32 }, (_, b) => {
    const block = values.subarray(32 * b, 32 * b + 32);
    const scale = block.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) / 127;
    const bits = tensorScope(
      () => new Uint8Array(tensor(Float32Array.of(scale), [1]).to("float16").toTypedArray().buffer),
    );
    return concatBytes(bits, new Uint8Array(Int8Array.from(block, (value) => Math.round(value / scale)).buffer));
  });
  return concatBytes(...blocks);
}
