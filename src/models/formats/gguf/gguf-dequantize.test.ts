import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type DequantizableType, dequantizableTypes, dequantize, isDequantizable } from "./gguf-dequantize.ts";
import { openGguf } from "./gguf-file.ts";

const fixtures = fileURLToPath(new URL("../../../../fixtures/gguf/", import.meta.url));

function valuesOf(type: DequantizableType, bytes: number[], count: number): number[] {
  const values = new Float32Array(count);
  dequantize(type, Uint8Array.from(bytes), values);
  return [...values];
}

/** The bytes of half-precision 0.5, 1 and 2. */
const halfOf05 = [0x00, 0x38];
const halfOf1 = [0x00, 0x3c];
const halfOf2 = [0x00, 0x40];

test("bfloat16 is the upper half of a float", () => {
  expect(valuesOf("BF16", [0x80, 0x3f, 0x40, 0xc0], 2)).toEqual([1, -3]);
});

test("q8_0 multiplies signed bytes by the scale", () => {
  const values = valuesOf("Q8_0", [...halfOf05, 2, 0xff, 0x80, ...Array(29).fill(0)], 32);
  expect(values.slice(0, 4)).toEqual([1, -0.5, -64, 0]);
});

test("q4_0 keeps value i in the low and value i + 16 in the high half of byte i", () => {
  // Low 0 is 2 (0 - 8) = -16, high 15 is 2 (15 - 8) = 14; 0x88 is 8 - 8 = 0 twice.
  const values = valuesOf("Q4_0", [...halfOf2, 0xf0, ...Array(15).fill(0x88)], 32);
  expect([values[0], values[16], values[1], values[17]]).toEqual([-16, 14, 0, 0]);
});

test("q4_1 adds a minimum", () => {
  const values = valuesOf("Q4_1", [...halfOf2, ...halfOf1, 0xf3, ...Array(15).fill(0)], 32);
  expect([values[0], values[16], values[1]]).toEqual([7, 31, 1]);
});

test("q5_0 takes the fifth bit of value i from bit i", () => {
  // Fifth bits: value 0 and value 17. q = 3 + 16 and 1 + 16, less 16, times 2; value 1 has 0 - 16.
  const values = valuesOf("Q5_0", [...halfOf2, 0x01, 0x00, 0x02, 0x00, 0x03, 0x10, ...Array(14).fill(0)], 32);
  expect([values[0], values[1], values[17]]).toEqual([6, -32, 2]);
});

test("q5_1 adds a minimum to five-bit values", () => {
  const values = valuesOf(
    "Q5_1",
    [...halfOf2, ...halfOf1, 0x01, 0x00, 0x00, 0x80, 0x03, ...Array(14).fill(0), 0x50],
    32,
  );
  expect([values[0], values[1], values[31]]).toEqual([2 * 19 + 1, 1, 2 * 21 + 1]);
});

test("q4_k scales eight groups of 32 by six-bit factors", () => {
  const bytes = Array<number>(144).fill(0);
  bytes.splice(0, 4, ...halfOf2, ...halfOf1);
  bytes[4] = 0b01_000011; // group 0: scale 3; upper bits of group 4's scale: 1
  bytes[8] = 0b10_000101; // group 0: minimum 5; upper bits of group 4's minimum: 2
  bytes[12] = 0x21; // group 4: scale 1 + 16 = 17, minimum 2 + 32 = 34
  bytes[16] = 0x0f; // value 0: 15
  bytes[16 + 64 + 1] = 0x04; // value 128 + 1: 4
  const values = valuesOf("Q4_K", bytes, 256);
  expect([values[0], values[1], values[32]]).toEqual([2 * 3 * 15 - 5, -5, 0]);
  expect([values[128], values[129]]).toEqual([-34, 2 * 17 * 4 - 34]);
});

test("q5_k takes the fifth bit of group g from bit g", () => {
  const bytes = Array<number>(176).fill(0);
  bytes.splice(0, 4, ...halfOf1, ...halfOf1);
  bytes[5] = 2; // group 1: scale 2
  bytes[16 + 3] = 0b10; // value 3 of group 1 has its fifth bit
  bytes[48 + 3] = 0x70; // and 7 as its low bits
  expect(valuesOf("Q5_K", bytes, 256)[32 + 3]).toBe(2 * (7 + 16));
});

test("q6_k joins four low and two high bits around 32", () => {
  const bytes = Array<number>(210).fill(0);
  bytes.splice(208, 2, ...halfOf05);
  bytes[192 + 4] = 0xfe; // values 64 to 79: scale -2
  bytes[5] = 0x90; // value 64 + 5: low bits 9
  bytes[128 + 5] = 0b00_11_00_00; // and high bits 3
  const values = valuesOf("Q6_K", bytes, 256);
  expect(values[64 + 5]).toBe(0.5 * -2 * (9 + 48 - 32));
  expect(values[64 + 6]).toBe(0.5 * -2 * -32);
});

test("halves at an odd address are read", () => {
  const values = new Float32Array(1);
  dequantize("F16", Uint8Array.of(9, ...halfOf2).subarray(1), values);
  expect(values[0]).toBe(2);
});

const names = dequantizableTypes().map((type) => type.toLowerCase());

test.each(names)("%s equals the Python package gguf bit for bit", (name) => {
  const file = openGguf(`${fixtures}${name}.gguf`);
  const values = file.readTensor("blocks");
  const expected = file.readTensor("expected");
  expect(file.header.tensors.get("blocks")?.type.toLowerCase()).toBe(name);
  expect(values.length).toBe(1024);
  const differing = [...values.keys()].filter((index) => !Object.is(values[index], expected[index]));
  expect(differing).toEqual([]);
});

test("there is a fixture for every type", () => {
  expect(readdirSync(fixtures)).toEqual(expect.arrayContaining(names.map((name) => `${name}.gguf`)));
});

test("other types are known not to be computable", () => {
  expect(isDequantizable("IQ2_XXS")).toBe(false);
  expect(isDequantizable("Q6_K")).toBe(true);
});

test("bytes that do not fill the values are our own mistake", () => {
  expect(() => dequantize("Q8_0", new Uint8Array(33), new Float32Array(32))).toThrow(/internal: 33 bytes of Q8_0/);
});
