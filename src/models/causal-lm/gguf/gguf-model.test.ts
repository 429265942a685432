import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { float32, ggufBytes, text, uint32 } from "../../../../test/fuzz/gguf-bytes.ts";
import { openGguf } from "../../formats/gguf/gguf-file.ts";
import { openGgufModel } from "./gguf-model.ts";

const fixturePath = (name: string) => fileURLToPath(new URL(`../../../../fixtures/gguf/${name}.gguf`, import.meta.url));

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-gguf-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Weights of the fixtures: element i of the n-th tensor, in the order of their Hugging Face names, is n + i / 1024. */
test.each([
  ["llama", 16],
  ["qwen2", 14],
  ["qwen3", 13],
  ["qwen3moe", 24],
])("the weights of %s come back under their Hugging Face names with the values that went in", (name, count) => {
  const tensors = [...openGgufModel(fixturePath(name)).tensors()].sort((left, right) =>
    left.name < right.name ? -1 : 1,
  );
  expect(tensors.length).toBe(count);
  tensors.forEach((tensor, number) => {
    const values = tensor.read();
    expect(values.length, tensor.name).toBe(tensor.shape.reduce((product, size) => product * size, 1));
    expect([...values], tensor.name).toEqual([...values.keys()].map((index) => number + index / 1024));
  });
});

test("shapes are those of Hugging Face", () => {
  const shapes = new Map([...openGgufModel(fixturePath("qwen3moe")).tensors()].map(({ name, shape }) => [name, shape]));
  expect(shapes.get("model.embed_tokens.weight")).toEqual([8, 16]);
  expect(shapes.get("model.layers.0.self_attn.k_proj.weight")).toEqual([8, 16]);
  expect(shapes.get("model.layers.0.mlp.experts.3.gate_proj.weight")).toEqual([8, 16]);
  expect(shapes.get("model.layers.0.mlp.experts.3.down_proj.weight")).toEqual([16, 8]);
  expect(shapes.get("model.layers.0.mlp.gate.weight")).toEqual([4, 16]);
});

test("a raw tensor is as it is stored, permutation and all", () => {
  const stored = openGguf(fixturePath("llama")).readTensor("blk.0.attn_k.bias");
  const [restored] = [...openGgufModel(fixturePath("llama")).tensors()].filter(({ name }) =>
    name.endsWith("k_proj.bias"),
  );
  // Two heads of 4: row 1 of the file is row 2 of Hugging Face.
  expect(stored[1]).toBe(restored?.read()[2]);
  expect(stored[2]).toBe(restored?.read()[1]);
});

/** Metadata of a model of width 32 with one head and two experts. */
function smallMetadata(architecture: string) {
  const numbers: [string, number][] = [
    ["embedding_length", 32],
    ["attention.head_count", 1],
    ["feed_forward_length", 2],
    ["block_count", 1],
    ["context_length", 8],
    ["expert_count", architecture === "qwen3moe" ? 2 : 0],
    ["expert_used_count", 1],
    ["expert_feed_forward_length", 1],
  ];
  return [
    { key: "general.architecture", type: 8, value: text(architecture) },
    { key: `${architecture}.attention.layer_norm_rms_epsilon`, type: 6, value: float32(1e-6) },
    ...numbers.map(([key, value]) => ({ key: `${architecture}.${key}`, type: 4, value: uint32(value) })),
  ];
}

/** A file with an embedding of one token and one more F32 tensor of zeros. */
function openWith(architecture: string, name: string, dimensions: number[]) {
  const path = join(folder, "a.gguf");
  const tensors = [
    { name: "token_embd.weight", dimensions: [32, 1], type: 0, offset: 0 },
    { name, dimensions, type: 0, offset: 128 },
  ];
  const size = 4 * dimensions.reduce((product, length) => product * length, 1);
  writeFileSync(path, ggufBytes({ metadata: smallMetadata(architecture), tensors, data: new Uint8Array(128 + size) }));
  return openGgufModel(path);
}

test("a tensor that the architecture does not have is never dropped", () => {
  const file = openWith("qwen3", "cls.output.weight", [2]);
  expect(() => [...file.tensors()]).toThrow(
    'a.gguf has tensor "cls.output.weight" of shape [2], but qwen3 models have no such tensor.',
  );
});

test("a query projection must have a row for each value of each head", () => {
  expect([...openWith("llama", "blk.0.attn_q.weight", [32, 32]).tensors()]).toHaveLength(2);
  expect(() => [...openWith("llama", "blk.0.attn_q.weight", [32, 30]).tensors()]).toThrow(
    /"blk.0.attn_q.weight" of shape \[30,32\], but 1 heads of 32 need 32 rows/,
  );
});

test.each([[[32, 1, 3]], [[2]], [[1, 2]], [[0, 1, 2]]])(
  "stacked experts of dimensions %j are refused",
  (dimensions) => {
    const file = openWith("qwen3moe", "blk.0.ffn_up_exps.weight", dimensions);
    expect(() => [...file.tensors()]).toThrow(/but 2 experts need that many matrices/);
  },
);
