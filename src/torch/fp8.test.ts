import { expect, test } from "vitest";
import { tensor } from "./create.ts";
import { fp8Rounded } from "./fp8.ts";

test("every number of 8-bit floats is kept where the scale is 1", () => {
  const numbers = [448];
  for (let exponent = -6; exponent <= 8; exponent++)
    for (let mantissa = 0; mantissa < 8; mantissa++) numbers.push((1 + mantissa / 8) * 2 ** exponent);
  for (let mantissa = 0; mantissa < 8; mantissa++) numbers.push((mantissa / 8) * 2 ** -6);
  const all = numbers.filter((number) => number <= 448).flatMap((number) => [number, -number]);
  expect(fp8Rounded(tensor(all)).toArray()).toEqual(tensor(all).toArray());
});

test("between them the nearest is taken, and of two the even one; below 2^-6 steps are 2^-9", () => {
  const row = [448, 17, 19, 18.1, 17.9, 300, 2 ** -9 * 1.4, 2 ** -9 * 0.5, 2 ** -9 * 1.5];
  expect(fp8Rounded(tensor(row)).toArray()).toEqual([448, 16, 20, 18, 18, 288, 2 ** -9, 0, 2 ** -8]);
});

test("every row has a scale of its own, so that its largest number is kept, and a row of zeros stays one", () => {
  const rounded = fp8Rounded(
    tensor([
      [0.5, -0.1],
      [-1000, 3],
      [0, 0],
    ]),
  ).toArray();
  // 0.1 / (0.5 / 448) = 89.6, of which 88 is the nearest; 3 / (1000 / 448) = 1.344, of which 1.375 is.
  const expected = [0.5, (-88 * 0.5) / 448, -1000, (1.375 * 1000) / 448, 0, 0];
  expected.forEach((value, i) => void expect(rounded[i]).toBeCloseTo(value, 4));
});
