import { expect, test } from "vitest";
import { tensor, zeros } from "../create.ts";
import { tensorScope } from "../scope.ts";
import { codeValues, decode, encode } from "./dynamic-codes.ts";

test("codes stand for 256 numbers, dense near the largest and down to a millionth of it", () => {
  const signed = codeValues("signed");
  const unsigned = codeValues("unsigned");
  for (const values of [signed, unsigned]) expect(new Set(values).size).toBe(256);
  // 64 middles of 0.1 to 1: the highest is 1 - 0.9 / 128; one middle at the lowest power of ten: 0.55e-6.
  expect(signed.at(-1)).toBe(1);
  expect(signed.at(-2)).toBeCloseTo(1 - 0.9 / 128, 12);
  expect(signed[0]).toBeCloseTo(-(1 - 0.9 / 128), 12);
  expect(Math.min(...signed.filter((value) => value > 0))).toBeCloseTo(0.55e-6, 12);
  // Twice as many of one sign.
  expect(unsigned[0]).toBe(0);
  expect(unsigned[1]).toBeCloseTo(0.325e-6, 12);
  expect(unsigned.at(-2)).toBeCloseTo(1 - 0.9 / 256, 12);
});

test("numbers come back within the distance of two codes, each block by its own scale", () =>
  tensorScope(() => {
    // 600 numbers: two whole blocks and a part of one; the second is a thousand times larger.
    const values = Float32Array.from({ length: 600 }, (_, i) => Math.sin(i) * (i >= 256 && i < 512 ? 1000 : 1));
    const codes = zeros([600], { dtype: "uint8" });
    const scales = zeros([3], { dtype: "float32" });
    encode(tensor(values, [600]), codes, scales, "signed");
    const largest = (from: number, to: number) => Math.max(...values.slice(from, to).map(Math.abs));
    expect(scales.toArray()).toEqual([largest(0, 256), largest(256, 512), largest(512, 600)]);
    for (const [i, value] of decode(codes, scales, "signed").toArray().entries()) {
      const scale = i >= 256 && i < 512 ? 1000 : 1;
      // Half of 0.9 / 64 near the largest; a tenth of that for what is ten times smaller.
      expect(Math.abs(value - values[i]!) / scale).toBeLessThan(0.0071);
      if (Math.abs(values[i]!) < 0.09 * scale) expect(Math.abs(value - values[i]!) / scale).toBeLessThan(0.0015);
    }
  }));

test("a block of zeros stays zeros", () =>
  tensorScope(() => {
    const codes = zeros([256], { dtype: "uint8" });
    const scales = zeros([1], { dtype: "float32" });
    encode(zeros([256]), codes, scales, "unsigned");
    expect(decode(codes, scales, "unsigned").toArray()).toEqual(new Array(256).fill(0));
  }));
