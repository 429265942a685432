import { expect, test } from "vitest";
import { float16Table } from "./float16-table.ts";

test("halves widen to the same value", () => {
  const { values } = float16Table();
  expect(values[0x3c00]).toBe(1);
  expect(values[0xc000]).toBe(-2);
  expect(values[0x3555]).toBe(0.333251953125);
  expect(values[0x7bff]).toBe(65504);
  expect(values[0x8000]).toBe(-0);
});

test("subnormal halves are multiples of 2^-24", () => {
  const { values } = float16Table();
  expect(values[0x0001]).toBe(2 ** -24);
  expect(values[0x0003]).toBe(3 * 2 ** -24);
  expect(values[0x03ff]).toBe(1023 * 2 ** -24);
  expect(values[0x0400]).toBe(2 ** -14);
});

test("infinities stay and a NaN keeps its payload", () => {
  const { values, bits } = float16Table();
  expect(values[0x7c00]).toBe(Number.POSITIVE_INFINITY);
  expect(values[0xfc00]).toBe(Number.NEGATIVE_INFINITY);
  expect(values[0x7e01]).toBeNaN();
  expect(bits[0x7e01]).toBe(0x7fc02000);
});
