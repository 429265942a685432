import { expect, test } from "vitest";
import { arrayFor, bytesOf, type DType, dtypeOf, isFloating } from "./dtype.ts";

test("each dtype has its bytes: 8 of int64, 2 of bfloat16, 16 of complex128", () => {
  const dtypes = [
    "float32",
    "float64",
    "bfloat16",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
  ] as const satisfies readonly DType[];
  expect(dtypes.map(bytesOf)).toEqual([4, 8, 2, 2, 8, 4, 2, 1, 1, 1, 8, 16]);
});

test("an array for complex values has two numbers for each", () => {
  expect(arrayFor("complex64", 3)).toEqual(new Float32Array(6));
  expect(arrayFor("bfloat16", 3)).toEqual(new Uint16Array(3));
});

test("an array has the dtype it was made for, and 16 bits have the one that is asked for", () => {
  for (const dtype of ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"] as const) {
    expect(dtypeOf(arrayFor(dtype, 1))).toBe(dtype);
  }
  for (const dtype of ["bfloat16", "float16", "int16"] as const) expect(dtypeOf(new Uint16Array(1), dtype)).toBe(dtype);
  expect(() => dtypeOf(new Uint16Array(1))).toThrow(/has no element type of its own/);
  expect(() => dtypeOf(new Uint16Array(1), "int32")).toThrow(/got dtype int32/);
});

test("gradients flow through floats only", () => {
  expect((["float32", "float64", "bfloat16", "float16"] as const).every(isFloating)).toBe(true);
  expect((["int64", "bool", "uint8", "complex64"] as const).some(isFloating)).toBe(false);
});
