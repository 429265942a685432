import { expect, test } from "vitest";
import {
  array,
  concatBytes,
  float32,
  type GgufParts,
  ggufBytes,
  text,
  uint32,
  uint64,
} from "../../../../test/fuzz/gguf-bytes.ts";
import { parseGgufHeader } from "./gguf-header.ts";

function parseBytes(bytes: Uint8Array) {
  return parseGgufHeader({
    name: "a.gguf",
    size: bytes.byteLength,
    read: (position, length) => bytes.slice(position, position + length),
  });
}

const parse = (parts: GgufParts) => parseBytes(ggufBytes(parts));

test("a header gives the place of every tensor, slowest dimension first", () => {
  // 24 + (8 + 1 + 4 + 16 + 4 + 8) + (8 + 1 + 4 + 8 + 4 + 8) = 98, padded to 128. The first tensor takes 24 bytes, padded to 32.
  const header = parse({
    tensors: [
      { name: "a", dimensions: [3, 2], type: 0, offset: 0 },
      { name: "b", dimensions: [32], type: 8, offset: 32 },
    ],
    data: new Uint8Array(32 + 34),
  });
  expect(header.dataOffset).toBe(128);
  expect([...header.tensors.values()]).toEqual([
    { name: "a", shape: [2, 3], type: "F32", byteOffset: 128, byteLength: 24 },
    { name: "b", shape: [32], type: "Q8_0", byteOffset: 160, byteLength: 34 },
  ]);
});

test("metadata of every type is read", () => {
  const header = parse({
    metadata: [
      { key: "u8", type: 0, value: Uint8Array.of(255) },
      { key: "i8", type: 1, value: Uint8Array.of(255) },
      { key: "u16", type: 2, value: Uint8Array.of(1, 2) },
      { key: "i16", type: 3, value: Uint8Array.of(0xfe, 0xff) },
      { key: "u32", type: 4, value: uint32(4_000_000_000) },
      { key: "i32", type: 5, value: uint32(0xffffffff) },
      { key: "f32", type: 6, value: float32(0.5) },
      { key: "yes", type: 7, value: Uint8Array.of(1) },
      { key: "text", type: 8, value: text("häst") },
      { key: "u64", type: 10, value: uint64(7) },
      { key: "large", type: 10, value: uint64(2n ** 63n) },
      { key: "i64", type: 11, value: uint64(2n ** 64n - 3n) },
      { key: "f64", type: 12, value: new Uint8Array(Float64Array.of(0.1).buffer) },
    ],
  });
  expect([...header.metadata.values()]).toEqual([
    255,
    -1,
    0x0201,
    -2,
    4_000_000_000,
    -1,
    0.5,
    true,
    "häst",
    7,
    9223372036854775808n,
    -3,
    0.1,
  ]);
});

test("metadata arrays of numbers are typed arrays, others plain ones", () => {
  const header = parse({
    metadata: [
      { key: "f32", type: 9, value: array(6, float32(1), float32(2)) },
      { key: "i64", type: 9, value: array(11, uint64(5)) },
      { key: "texts", type: 9, value: array(8, text(""), text("b")) },
      { key: "flags", type: 9, value: array(7, Uint8Array.of(0), Uint8Array.of(1)) },
    ],
  });
  expect([...header.metadata.values()]).toEqual([
    Float32Array.of(1, 2),
    BigInt64Array.of(5n),
    ["", "b"],
    [false, true],
  ]);
});

test("version 2 has the same layout and the alignment can be set", () => {
  const header = parse({
    version: 2,
    metadata: [{ key: "general.alignment", type: 4, value: uint32(64) }],
    tensors: [{ name: "a", dimensions: [], type: 0, offset: 0 }],
    data: float32(1),
    alignment: 64,
  });
  expect(header.version).toBe(2);
  expect(header.tensors.get("a")).toEqual({ name: "a", shape: [], type: "F32", byteOffset: 128, byteLength: 4 });
});

test("a header larger than the read window is read whole", () => {
  const tokens = Array.from({ length: 100_000 }, (_, index) => text(`token ${index}`));
  const header = parse({
    metadata: [{ key: "tokens", type: 9, value: concatBytes(uint32(8), uint64(tokens.length), ...tokens) }],
  });
  const read = header.metadata.get("tokens");
  expect(Array.isArray(read) && [read.length, read[0], read[99_999]]).toEqual([100_000, "token 0", "token 99999"]);
});

const vector = { name: "a", dimensions: [8], type: 0, offset: 0 };
const eight = new Uint8Array(32);
const lies: [string, GgufParts, RegExp][] = [
  ["more keys than bytes", { numKeys: 60_000 }, /metadata of 60000 keys needs 840000 bytes at byte 24 and 8 are left/],
  ["absurdly many keys", { numKeys: 2n ** 63n }, /metadata keys is 9223372036854775808 and must be below 2\^53/],
  ["more tensors than allowed", { numTensors: 10_000_000 }, /number of tensors is 10000000 and at most 1000000/],
  ["more tensors than bytes", { numTensors: 9 }, /list of 9 tensors needs 216 bytes/],
  [
    "a key twice",
    { metadata: [1, 2].map((value) => ({ key: "k", type: 0, value: Uint8Array.of(value) })) },
    /"k" is there twice/,
  ],
  ["an empty key", { metadata: [{ key: "", type: 4, value: uint32(1) }] }, /metadata key 0 has 0 characters/],
  [
    "a key with a lying length",
    { metadata: [{ key: "k", type: 8, value: uint64(1e9) }] },
    /the key "k" needs 1000000000 bytes/,
  ],
  [
    "an array with a lying length",
    { metadata: [{ key: "k", type: 9, value: concatBytes(uint32(12), uint64(1e6)) }] },
    /needs 8000000/,
  ],
  [
    "a list with a lying length",
    { metadata: [{ key: "k", type: 9, value: concatBytes(uint32(8), uint64(2 ** 25)) }] },
    /at most 16777216/,
  ],
  [
    "an array of arrays",
    { metadata: [{ key: "k", type: 9, value: array(9, array(9)) }] },
    /array of type 9; arrays of numbers/,
  ],
  [
    "an unknown value type",
    { metadata: [{ key: "k", type: 13, value: uint32(1) }] },
    /value type 13 and the known ones are 0 to 12/,
  ],
  [
    "a boolean of 2",
    { metadata: [{ key: "k", type: 7, value: Uint8Array.of(2) }] },
    /boolean of value 2 and must be 0 or 1/,
  ],
  [
    "an alignment of 3",
    { metadata: [{ key: "general.alignment", type: 4, value: uint32(3) }] },
    /is "3" and must be a power of two/,
  ],
  ["an alignment of 0", { metadata: [{ key: "general.alignment", type: 4, value: uint32(0) }] }, /power of two/],
  ["five dimensions", { tensors: [{ ...vector, dimensions: [1, 1, 1, 1, 1] }] }, /has 5 dimensions and at most 4/],
  ["a shape that overflows", { tensors: [{ ...vector, dimensions: [2 ** 30, 2 ** 30] }] }, /more than 2\^53 bytes/],
  ["a dimension over 2^53", { tensors: [{ ...vector, dimensions: [2n ** 60n] }] }, /must be below 2\^53/],
  ["an unknown tensor type", { tensors: [{ ...vector, type: 999 }] }, /type number 999, which reroll does not know/],
  [
    "a row that is no whole block",
    { tensors: [{ ...vector, type: 8 }] },
    /rows of 8 values and Q8_0 needs a multiple of 32/,
  ],
  [
    "a tensor past the end",
    { tensors: [{ ...vector, dimensions: [9] }], data: eight },
    /ends at byte 100 and the file has 96/,
  ],
  [
    "a tensor at a wrong place",
    { tensors: [{ ...vector, offset: 32 }], data: eight },
    /at byte 32 of the data and must be at 0/,
  ],
  [
    "two tensors at one place",
    { tensors: [vector, { ...vector, name: "b" }], data: eight },
    /"b" is at byte 0 of the data and must be at 32/,
  ],
  ["a tensor twice", { tensors: [vector, { ...vector, offset: 32 }], data: new Uint8Array(64) }, /"a" is there twice/],
];

test.each(lies)("a header with %s is refused", (_, parts, message) => {
  expect(() => parse(parts)).toThrow(message);
  expect(() => parse(parts)).toThrow(expect.objectContaining({ code: "GGUF_INVALID" }));
});

test("a name that is not UTF-8 is refused and a text value with such bytes is not", () => {
  const parts = { metadata: [{ key: "k?", type: 8, value: text("v?") }] };
  const bytes = ggufBytes(parts);
  bytes[bytes.indexOf("?".charCodeAt(0), 40)] = 0xff;
  expect(parseBytes(bytes).metadata.get("k?")).toBe("v\ufffd");
  bytes[bytes.indexOf("?".charCodeAt(0))] = 0xff;
  expect(() => parseBytes(bytes)).toThrow(/is not UTF-8/);
});

test("other formats, versions and byte orders are told apart", () => {
  expect(() => parseBytes(new TextEncoder().encode("PK"))).toThrow(
    /the magic number needs 4 bytes at byte 0 and 2 are left/,
  );
  expect(() => parseBytes(new TextEncoder().encode("ggml, no GGUF"))).toThrow(/does not begin with "GGUF"/);
  expect(() => parse({ version: 1 })).toThrow("a.gguf is version 1. Supported: little-endian GGUF of version 2 or 3.");
  expect(() => parse({ version: 0x03000000 })).toThrow(/is a big-endian file/);
});
