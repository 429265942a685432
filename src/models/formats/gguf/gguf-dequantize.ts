/**
 * Turns the blocks of a ggml tensor into single-precision values, bit for bit what the Python package `gguf` computes.
 *
 * The formulas run in double precision and round once, at the store. That is exact: a scale has at most 11 bits, a sub-scale 7 and
 * a quantized value 8, so products are exact in single precision as well, and one addition rounds the same way in both.
 * The host is little-endian, as every platform of Node with a libtorch build is.
 */

import { invariant } from "../../../errors/reroll-error.ts";
import { float16Table } from "./float16-table.ts";
import { type GgmlType, ggmlTypes } from "./ggml-type.ts";

/** The types whose values can be computed. */
export type DequantizableType = keyof typeof dequantizers;

/** Tells whether `dequantize` takes this type. */
export function isDequantizable(type: GgmlType): type is DequantizableType {
  return Object.hasOwn(dequantizers, type);
}

/** The names of the types that can be computed, for messages. */
export function dequantizableTypes(): readonly string[] {
  return Object.keys(dequantizers);
}

/** Fills `values` from `bytes`, which must hold exactly the whole blocks for it. */
export function dequantize(type: DequantizableType, bytes: Uint8Array, values: Float32Array): void {
  const { blockValues, blockBytes } = ggmlTypes[type];
  const blocks = values.length / blockValues;
  invariant(
    Number.isInteger(blocks) && bytes.byteLength === blocks * blockBytes,
    `${bytes.byteLength} bytes of ${type} cannot fill ${values.length} values`,
  );
  dequantizers[type](bytes, values);
}

const dequantizers = {
  F32: dequantizeF32,
  F16: dequantizeF16,
  BF16: dequantizeBF16,
  Q4_0: dequantizeQ4Zero,
  Q4_1: dequantizeQ4One,
  Q5_0: dequantizeQ5Zero,
  Q5_1: dequantizeQ5One,
  Q8_0: dequantizeQ8Zero,
  Q4_K: dequantizeQ4K,
  Q5_K: dequantizeQ5K,
  Q6_K: dequantizeQ6K,
};

function dequantizeF32(bytes: Uint8Array, values: Float32Array): void {
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength).set(bytes);
}

function dequantizeF16(bytes: Uint8Array, values: Float32Array): void {
  const halves = viewHalves(bytes);
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const table = float16Table().bits;
  for (let index = 0; index < bits.length; index++) bits[index] = table[halves[index]!]!;
}

function dequantizeBF16(bytes: Uint8Array, values: Float32Array): void {
  const halves = viewHalves(bytes);
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let index = 0; index < bits.length; index++) bits[index] = halves[index]! << 16;
}

/** Block: scale d, 16 bytes of two values. Value i is in the low half of byte i, value i + 16 in the high half. v = d (q - 8). */
function dequantizeQ4Zero(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  for (let at = 0, out = 0; out < values.length; at += 18, out += 32) {
    const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 2 + index]!;
      values[out + index] = scale * ((pair & 15) - 8);
      values[out + index + 16] = scale * ((pair >> 4) - 8);
    }
  }
}

/** Block: scale d, minimum m, values as in Q4_0. v = d q + m. */
function dequantizeQ4One(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  for (let at = 0, out = 0; out < values.length; at += 20, out += 32) {
    const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
    const minimum = half[bytes[at + 2]! | (bytes[at + 3]! << 8)]!;
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 4 + index]!;
      values[out + index] = scale * (pair & 15) + minimum;
      values[out + index + 16] = scale * (pair >> 4) + minimum;
    }
  }
}

/** Block: scale d, 32 fifth bits in value order, low bits as in Q4_0. v = d (q - 16). */
function dequantizeQ5Zero(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  for (let at = 0, out = 0; out < values.length; at += 22, out += 32) {
    const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
    const lowHigh = bytes[at + 2]! | (bytes[at + 3]! << 8);
    const highHigh = bytes[at + 4]! | (bytes[at + 5]! << 8);
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 6 + index]!;
      values[out + index] = scale * (((pair & 15) | (((lowHigh >> index) & 1) << 4)) - 16);
      values[out + index + 16] = scale * (((pair >> 4) | (((highHigh >> index) & 1) << 4)) - 16);
    }
  }
}

/** Block: scale d, minimum m, fifth bits and low bits as in Q5_0. v = d q + m. */
function dequantizeQ5One(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  for (let at = 0, out = 0; out < values.length; at += 24, out += 32) {
    const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
    const minimum = half[bytes[at + 2]! | (bytes[at + 3]! << 8)]!;
    const lowHigh = bytes[at + 4]! | (bytes[at + 5]! << 8);
    const highHigh = bytes[at + 6]! | (bytes[at + 7]! << 8);
    for (let index = 0; index < 16; index++) {
      const pair = bytes[at + 8 + index]!;
      values[out + index] = scale * ((pair & 15) | (((lowHigh >> index) & 1) << 4)) + minimum;
      values[out + index + 16] = scale * ((pair >> 4) | (((highHigh >> index) & 1) << 4)) + minimum;
    }
  }
}

/** Block: scale d, 32 signed bytes. v = d q. */
function dequantizeQ8Zero(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0, out = 0; out < values.length; at += 34, out += 32) {
    const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
    for (let index = 0; index < 32; index++) values[out + index] = scale * signed[at + 2 + index]!;
  }
}

/**
 * Block: scale d, minimum scale m, 12 bytes of eight 6-bit pairs (see `unpackScales`), 128 bytes of two values.
 * In each run of 64 values, the first 32 are the low halves of 32 bytes and the next 32 their high halves. v = d s q - m t.
 */
function dequantizeQ4K(bytes: Uint8Array, values: Float32Array): void {
  const scales = new Float64Array(16);
  for (let at = 0, out = 0; out < values.length; at += 144, out += 256) {
    unpackScales(bytes, at, scales);
    for (let part = 0; part < 4; part++) {
      const lowScale = scales[4 * part]!;
      const lowMinimum = scales[4 * part + 1]!;
      const highScale = scales[4 * part + 2]!;
      const highMinimum = scales[4 * part + 3]!;
      const from = at + 16 + 32 * part;
      const to = out + 64 * part;
      for (let index = 0; index < 32; index++) {
        const pair = bytes[from + index]!;
        values[to + index] = lowScale * (pair & 15) - lowMinimum;
        values[to + index + 32] = highScale * (pair >> 4) - highMinimum;
      }
    }
  }
}

/** Like Q4_K, with 32 bytes of fifth bits before the low bits: bit g of byte i belongs to value i of the g-th 32. */
function dequantizeQ5K(bytes: Uint8Array, values: Float32Array): void {
  const scales = new Float64Array(16);
  for (let at = 0, out = 0; out < values.length; at += 176, out += 256) {
    unpackScales(bytes, at, scales);
    for (let part = 0; part < 4; part++) {
      const lowScale = scales[4 * part]!;
      const lowMinimum = scales[4 * part + 1]!;
      const highScale = scales[4 * part + 2]!;
      const highMinimum = scales[4 * part + 3]!;
      const from = at + 48 + 32 * part;
      const to = out + 64 * part;
      for (let index = 0; index < 32; index++) {
        const pair = bytes[from + index]!;
        const fifths = bytes[at + 16 + index]! >> (2 * part);
        values[to + index] = lowScale * ((pair & 15) | ((fifths & 1) << 4)) - lowMinimum;
        values[to + index + 32] = highScale * ((pair >> 4) | ((fifths & 2) << 3)) - highMinimum;
      }
    }
  }
}

/**
 * Block: 128 bytes of low halves, 64 bytes of four upper bit pairs, 16 signed scales s for 16 values each, scale d. v = d s (q - 32).
 * Each half of the block is four groups of 32: the low halves of 32 + 32 bytes, then the high halves of the same bytes.
 */
function dequantizeQ6K(bytes: Uint8Array, values: Float32Array): void {
  const half = float16Table().values;
  const signed = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0, out = 0; out < values.length; at += 210, out += 256) {
    const scale = half[bytes[at + 208]! | (bytes[at + 209]! << 8)]!;
    for (let part = 0; part < 4; part++) {
      const scaleAt = at + 192 + 8 * (part >> 1) + (part & 1);
      const first = scale * signed[scaleAt]!;
      const second = scale * signed[scaleAt + 2]!;
      const third = scale * signed[scaleAt + 4]!;
      const fourth = scale * signed[scaleAt + 6]!;
      const low = at + 64 * (part >> 1) + 16 * (part & 1);
      const high = at + 128 + 32 * (part >> 1) + 16 * (part & 1);
      const to = out + 128 * (part >> 1) + 16 * (part & 1);
      for (let index = 0; index < 16; index++) {
        const left = bytes[low + index]!;
        const right = bytes[low + index + 32]!;
        const upper = bytes[high + index]!;
        values[to + index] = first * (((left & 15) | ((upper & 3) << 4)) - 32);
        values[to + index + 32] = second * (((right & 15) | ((upper & 12) << 2)) - 32);
        values[to + index + 64] = third * (((left >> 4) | (upper & 48)) - 32);
        values[to + index + 96] = fourth * (((right >> 4) | ((upper & 192) >> 2)) - 32);
      }
    }
  }
}

/**
 * Writes d s and m t of the eight groups of a Q4_K or Q5_K block, in turn.
 * Groups 0 to 3: s is the low 6 bits of byte i, t those of byte i + 4. Groups 4 to 7: the low (s) and high (t) half of byte i + 8,
 * with the top 2 bits of byte i (s) and byte i + 4 (t) above them.
 */
function unpackScales(bytes: Uint8Array, at: number, scales: Float64Array): void {
  const half = float16Table().values;
  const scale = half[bytes[at]! | (bytes[at + 1]! << 8)]!;
  const minimum = half[bytes[at + 2]! | (bytes[at + 3]! << 8)]!;
  for (let group = 0; group < 4; group++) {
    const first = bytes[at + 4 + group]!;
    const second = bytes[at + 8 + group]!;
    const third = bytes[at + 12 + group]!;
    scales[2 * group] = scale * (first & 63);
    scales[2 * group + 1] = minimum * (second & 63);
    scales[2 * group + 8] = scale * ((third & 15) | ((first >> 6) << 4));
    scales[2 * group + 9] = minimum * ((third >> 4) | ((second >> 6) << 4));
  }
}

/** The bytes as 16-bit numbers, copied when they lie at an odd address. */
function viewHalves(bytes: Uint8Array): Uint16Array {
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
}
