import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { GgufModel } from "../../src/models/causal-lm/gguf/gguf-model.ts";
import { type GgmlType, ggmlTypes } from "../../src/models/formats/gguf/ggml-type.ts";
import { type GgufFile, openGguf } from "../../src/models/formats/gguf/gguf-file.ts";
import { type GgufHeader, parseGgufHeader } from "../../src/models/formats/gguf/gguf-header.ts";
import { damaged, readOrRefuse, runFuzz } from "./fuzz.ts";
import { array, concatBytes, float32, type GgufEntry, ggufBytes, text, uint32, uint64 } from "./gguf-bytes.ts";

const fixture = (name: string) =>
  new Uint8Array(readFileSync(new URL(`../../fixtures/gguf/${name}.gguf`, import.meta.url)));

/** Everything a parsed header promises, checked against the bytes without the parser's own code. */
function expectSound(header: GgufHeader, bytes: Uint8Array): void {
  const counts = new DataView(bytes.buffer, bytes.byteOffset);
  expect(BigInt(header.tensors.size), "no tensor is hidden by another of its name").toBe(counts.getBigUint64(8, true));
  expect(BigInt(header.metadata.size), "no key is hidden by another").toBe(counts.getBigUint64(16, true));
  let end = header.dataOffset;
  for (const [name, { name: ownName, shape, type, byteOffset, byteLength }] of header.tensors) {
    expect(ownName).toBe(name);
    const { blockValues, blockBytes } = ggmlTypes[type];
    expect(shape.every((size) => Number.isSafeInteger(size) && size >= 0)).toBe(true);
    expect((shape.at(-1) ?? 1) % blockValues, "rows are whole blocks").toBe(0);
    expect(byteLength * blockValues).toBe(shape.reduce((product, size) => product * size, 1) * blockBytes);
    expect(byteOffset).toBeGreaterThanOrEqual(end);
    end = byteOffset + byteLength;
    expect(end).toBeLessThanOrEqual(bytes.byteLength);
  }
}

function checkHeader(bytes: Uint8Array): void {
  let furthest = 0;
  const source = {
    name: "fuzz.gguf",
    size: bytes.byteLength,
    read(position: number, length: number) {
      furthest = Math.max(furthest, position + length);
      return bytes.slice(position, position + length);
    },
  };
  const header = readOrRefuse(() => parseGgufHeader(source));
  expect(furthest).toBeLessThanOrEqual(bytes.byteLength);
  if (header !== null) expectSound(header, bytes);
}

/** Uses all of the file: config, every raw tensor, every Hugging Face tensor. */
function useWhole(file: GgufFile): void {
  const model = readOrRefuse(() => new GgufModel(file));
  const config = model?.config ?? null;
  // JSON has no NaN and no Infinity, so a config that holds one does not come back.
  expect(JSON.parse(JSON.stringify(config))).toEqual(config);
  for (const { name, shape } of file.header.tensors.values()) {
    const values = readOrRefuse(() => file.readTensor(name));
    if (values !== null) expect(values.length).toBe(shape.reduce((product, size) => product * size, 1));
  }
  readOrRefuse(() => {
    for (const tensor of model?.tensors() ?? []) {
      const values = readOrRefuse(() => tensor.read());
      if (values !== null) expect(values.length).toBe(tensor.shape.reduce((product, size) => product * size, 1));
    }
  });
}

test("a damaged GGUF header is refused or describes tensors inside the file", () => {
  const model = fixture("qwen3moe");
  const types = fixture("q4_k");
  checkHeader(model);
  runFuzz(fc.oneof(damaged(model, 2_000), damaged(types, 250)), checkHeader);
});

test.each(["llama", "qwen3moe"])("a damaged %s file on disk is refused or can be used as a whole", (name) => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-fuzz-"));
  const path = join(folder, "a.gguf");
  runFuzz(damaged(fixture(name), 2_400), (bytes) => {
    writeFileSync(path, bytes);
    const file = readOrRefuse(() => openGguf(path));
    if (file !== null) useWhole(file);
  });
  rmSync(folder, { recursive: true });
});

test("a GGUF header that lies about counts, lengths, shapes, types and offsets is refused or sound", () => {
  const count = fc.oneof(
    { weight: 3, arbitrary: fc.bigInt({ min: 0n, max: 40n }) },
    fc.constantFrom(2n ** 16n, 10n ** 6n, 2n ** 24n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n),
  );
  const value = fc.oneof(
    fc.record({ type: fc.nat(14), value: fc.uint8Array({ maxLength: 12 }) }),
    fc.record({ type: fc.constant(8), value: count.map(uint64) }),
    fc.record({
      type: fc.constant(9),
      value: fc.tuple(fc.nat(13), count).map(([type, length]) => concatBytes(uint32(type), uint64(length))),
    }),
    fc.constant({
      type: 9,
      value: Array.from({ length: 50 }).reduce<Uint8Array>((inner) => array(9, inner), uint32(0)),
    }),
  );
  const key = fc.oneof(fc.constantFrom("general.alignment", "general.architecture", "__proto__", ""), fc.string());
  const metadata = fc.array(
    fc.tuple(key, value).map(([name, rest]) => ({ key: name, ...rest })),
    { maxLength: 4 },
  );
  const tensor = fc.record({
    name: fc.oneof(fc.constantFrom("a", "b", ""), fc.string()),
    dimensions: fc.array(count, { maxLength: 5 }),
    type: fc.nat(42),
    offset: fc.oneof(fc.constantFrom(0n, 32n, 64n), count),
  });
  const numbers = fc.option(count, { nil: undefined, freq: 3 });
  const files = fc
    .record({
      version: fc.oneof({ weight: 5, arbitrary: fc.constantFrom(2, 3) }, fc.nat()),
      numTensors: numbers,
      numKeys: numbers,
      metadata,
      tensors: fc.array(tensor, { maxLength: 3 }),
      data: fc.uint8Array({ maxLength: 200 }),
    })
    .map(({ numTensors, numKeys, ...parts }) =>
      ggufBytes({
        ...parts,
        ...(numTensors === undefined ? {} : { numTensors }),
        ...(numKeys === undefined ? {} : { numKeys }),
      }),
    );
  runFuzz(files, checkHeader);
});

const ggmlTypeNames = fc.constantFrom<GgmlType>(
  "F32",
  "F16",
  "BF16",
  "Q8_0",
  "Q4_0",
  "Q5_1",
  "Q4_K",
  "Q6_K",
  "IQ2_XXS",
  "I8",
);
const tensorLists = fc.uniqueArray(
  fc.tuple(fc.string({ minLength: 1 }), ggmlTypeNames, fc.array(fc.nat(3), { maxLength: 4 })),
  {
    selector: ([name]) => name,
    maxLength: 4,
  },
);

/** Tensors one after the other as the format wants them; the fastest dimension counts whole blocks. */
function layOut(list: readonly [string, GgmlType, number[]][]) {
  let end = 0;
  const tensors = list.map(([name, type, sizes]) => {
    const { id, blockValues, blockBytes } = ggmlTypes[type];
    const [fastest, ...others] = sizes.length === 0 && blockValues > 1 ? [1] : sizes;
    const dimensions = fastest === undefined ? [] : [fastest * blockValues, ...others];
    const offset = end;
    const blocks = [fastest ?? 1, ...others].reduce((product, size) => product * size, 1);
    end = Math.ceil((offset + blocks * blockBytes) / 32) * 32;
    return { name, dimensions, type: id, offset };
  });
  return { tensors, dataBytes: end };
}

test("a true GGUF header is read", () => {
  runFuzz(tensorLists, (list) => {
    const { tensors, dataBytes } = layOut(list);
    const bytes = ggufBytes({ tensors, data: new Uint8Array(dataBytes) });
    const source = {
      name: "a",
      size: bytes.byteLength,
      read: (at: number, size: number) => bytes.slice(at, at + size),
    };
    const header = parseGgufHeader(source);
    expect([...header.tensors.keys()]).toEqual(list.map(([name]) => name));
    expectSound(header, bytes);
  });
});

test("a true GGUF header with one or two changed numbers or names is refused or sound", () => {
  const kinds = fc.constantFrom("offset", "dimension", "type", "name", "rest", "data", "tensors");
  const lies = fc.array(
    fc.tuple(kinds, fc.nat(), fc.oneof(fc.integer({ min: -4, max: 4 }), fc.constantFrom(-32, 32, 255))),
    {
      minLength: 1,
      maxLength: 2,
    },
  );
  runFuzz(fc.tuple(tensorLists, lies), ([list, changes]) => {
    const { tensors, dataBytes } = layOut(list);
    let size = dataBytes;
    let numTensors = tensors.length;
    for (const [kind, which, delta] of changes) {
      const index = which % Math.max(tensors.length, 1);
      const tensor = tensors[index];
      if (kind === "data") size = Math.max(0, size + delta);
      if (kind === "tensors") numTensors = Math.max(0, numTensors + delta);
      if (tensor === undefined) continue;
      const place = which % Math.max(tensor.dimensions.length, 1);
      if (kind === "dimension" && tensor.dimensions[place] !== undefined) tensor.dimensions[place] += delta;
      if (kind === "type") tensor.type = Math.abs(tensor.type + delta) % 45;
      if (kind === "name") tensor.name = tensors[(index + 1) % tensors.length]!.name;
      const moved = kind === "offset" ? [tensor] : kind === "rest" ? tensors.slice(index) : [];
      for (const later of moved) later.offset += delta;
    }
    const unsigned = tensors.map((tensor) => ({
      ...tensor,
      offset: BigInt.asUintN(64, BigInt(tensor.offset)),
      dimensions: tensor.dimensions.map((dimension) => BigInt.asUintN(64, BigInt(dimension))),
    }));
    checkHeader(ggufBytes({ tensors: unsigned, numTensors, data: new Uint8Array(size) }));
  });
});

/** A model of width 32 with 2 query heads and 1 key head of 32, which is whole but for its feed-forward layers. */
function smallModel(architecture: string) {
  const numbers = {
    embedding_length: 32,
    "attention.head_count": 2,
    "attention.head_count_kv": 1,
    "attention.key_length": 32,
    feed_forward_length: 32,
    block_count: 1,
    context_length: 64,
    ...(architecture === "qwen3moe" ? { expert_count: 2, expert_used_count: 1, expert_feed_forward_length: 1 } : {}),
  };
  const metadata: GgufEntry[] = [
    { key: "general.architecture", type: 8, value: text(architecture) },
    { key: `${architecture}.attention.layer_norm_rms_epsilon`, type: 6, value: float32(1e-6) },
    { key: `${architecture}.rope.freq_base`, type: 6, value: float32(10_000) },
    { key: `${architecture}.rope.scaling.factor`, type: 6, value: float32(1) },
    ...Object.entries(numbers).map(([key, size]) => ({ key: `${architecture}.${key}`, type: 4, value: uint32(size) })),
  ];
  const tensors: { name: string; dimensions: number[]; type: GgmlType }[] = [
    { name: "token_embd.weight", dimensions: [32, 3], type: "F32" },
    { name: "blk.0.attn_q.weight", dimensions: [32, 64], type: "Q8_0" },
    { name: "blk.0.attn_k.weight", dimensions: [32, 32], type: "Q4_0" },
    ...(architecture === "qwen3moe"
      ? [{ name: "blk.0.ffn_gate_exps.weight", dimensions: [32, 1, 2], type: "Q8_0" as const }]
      : []),
    ...(architecture === "llama" ? [{ name: "rope_freqs.weight", dimensions: [16], type: "F32" as const }] : []),
  ];
  return { metadata, tensors };
}

test("a small model whose metadata or shapes lie is refused or can be used as a whole", () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-fuzz-"));
  const path = join(folder, "a.gguf");
  const value = fc.oneof(
    fc.constantFrom(0, 1, 2, 3, 31, 64, 2 ** 31, 2 ** 32 - 1).map((size) => ({ type: 4, value: uint32(size) })),
    fc.float().map((size) => ({ type: 6, value: float32(size) })),
    fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 0, -1).map((size) => ({ type: 6, value: float32(size) })),
    fc.constantFrom(
      { type: 8, value: text("yarn") },
      { type: 9, value: array(4) },
      { type: 9, value: array(4, uint32(2)) },
    ),
    fc.constant({ type: 10, value: uint64(2n ** 63n) }),
  );
  const keyLies = fc.array(fc.tuple(fc.nat(), value, fc.integer({ min: 0, max: 9 })), { maxLength: 2 });
  const dimensions = fc.array(fc.constantFrom(0, 1, 2, 32, 64), { maxLength: 3 });
  const shapeLies = fc.array(fc.tuple(fc.nat(), dimensions, ggmlTypeNames), { maxLength: 2 });
  const architecture = fc.constantFrom("llama", "qwen2", "qwen3", "qwen3moe");
  const fill = fc.constantFrom(0, 0x3f, 0x7f, 0xff);
  runFuzz(fc.tuple(architecture, keyLies, shapeLies, fill), ([name, wrongKeys, wrongShapes, byte]) => {
    const { metadata, tensors } = smallModel(name);
    for (const [which, lie, chance] of wrongKeys) {
      const index = which % metadata.length;
      const { key } = metadata[index]!;
      if (chance === 0) metadata.push({ key, ...lie });
      else metadata[index] = { key, ...lie };
    }
    for (const [which, sizes, type] of wrongShapes) {
      const { blockValues } = ggmlTypes[type];
      const index = which % tensors.length;
      const [fastest = 1, ...others] = sizes;
      tensors[index] = {
        name: tensors[index]!.name,
        dimensions: [Math.ceil(fastest / blockValues) * blockValues, ...others],
        type,
      };
    }
    let end = 0;
    const placed = tensors.map((tensor) => {
      const { id, blockValues, blockBytes } = ggmlTypes[tensor.type];
      const offset = end;
      const bytes = (tensor.dimensions.reduce((product, size) => product * size, 1) / blockValues) * blockBytes;
      end = Math.ceil((offset + bytes) / 32) * 32;
      return { ...tensor, type: id, offset };
    });
    writeFileSync(path, ggufBytes({ metadata, tensors: placed, data: new Uint8Array(end).fill(byte) }));
    const file = readOrRefuse(() => openGguf(path));
    if (file === null) return;
    expect(file.header.metadata.size, "no key is hidden by another").toBe(metadata.length);
    useWhole(file);
  });
  rmSync(folder, { recursive: true });
});
