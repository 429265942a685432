import { expect, test } from "vitest";
import { uniformAt } from "./uniform.ts";

const count = 20_000;
const series = {
  "positions of one seed": (i: number) => uniformAt(7, i),
  "seeds at one position": (i: number) => uniformAt(i, 12),
  "large seeds that differ in their high half": (i: number) => uniformAt(i * 2 ** 32 + 5, 12),
  "seeds and positions that grow together": (i: number) => uniformAt(i, i),
};

test.each(Object.entries(series))("%s are uniform in [0, 1)", (_name, at) => {
  const values = Array.from({ length: count }, (_, i) => at(i));
  expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...values)).toBeLessThan(1);
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count;
  // Four standard errors: sqrt(1/12 / n) for the mean and sqrt(1/180 / n) for the variance.
  expect(Math.abs(mean - 1 / 2)).toBeLessThan(4 * Math.sqrt(1 / 12 / count));
  expect(Math.abs(variance - 1 / 12)).toBeLessThan(4 * Math.sqrt(1 / 180 / count));
  // 63 degrees of freedom: 1 in 10,000 is above 118.
  expect(
    chiSquare(
      values.map((value) => Math.floor(value * 64)),
      64,
    ),
  ).toBeLessThan(118);
});

test.each(Object.entries(series))("of %s, one says nothing about the next", (_name, at) => {
  const pairs = Array.from({ length: count }, (_, i) => 8 * Math.floor(at(i) * 8) + Math.floor(at(i + 1) * 8));
  expect(chiSquare(pairs, 64)).toBeLessThan(118);
});

test("the low bits are as even as the high ones", () => {
  const values = Array.from({ length: count }, (_, i) => Math.floor(uniformAt(3, i) * 2 ** 53) % 64);
  expect(chiSquare(values, 64)).toBeLessThan(118);
});

test("the same seed and position give the same number, and neighbours give others", () => {
  expect(uniformAt(1, 2)).toBe(uniformAt(1, 2));
  const values = [uniformAt(1, 2), uniformAt(2, 1), uniformAt(1, 3), uniformAt(2 ** 32 + 1, 2)];
  expect(new Set(values).size).toBe(4);
});

function chiSquare(bins: readonly number[], numBins: number): number {
  const counts = new Array<number>(numBins).fill(0);
  for (const bin of bins) counts[bin]!++;
  const expected = bins.length / numBins;
  return counts.reduce((sum, observed) => sum + (observed - expected) ** 2 / expected, 0);
}
