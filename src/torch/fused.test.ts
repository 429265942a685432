import { expect, test } from "vitest";
import { ones, zeros } from "./create.ts";
import { attention, swiglu } from "./fused.ts";

test("swiglu needs two halves: silu(1) * 2 for [1 | 2], and an odd width is refused", () => {
  const pair = ones([1, 2]);
  pair.select(1, 1).mul_(2);
  expect(swiglu(pair).item()).toBeCloseTo(2 / (1 + Math.exp(-1)), 6);
  expect(() => swiglu(ones([2, 5]))).toThrow("got shape [2, 5]. Its last size must be even");
  expect(() => swiglu(ones([]))).toThrow("got shape []");
});

test("attention without heads, and heads that do not divide, are refused before libtorch sees them", () => {
  const run =
    (H: number, G: number, K = 4) =>
    () =>
      attention(zeros([1, H, 2, K]), zeros([1, G, 2, K]), zeros([1, G, 2, K]));
  for (const [H, G, K] of [
    [0, 0],
    [0, 1],
    [2, 0],
    [3, 2],
    [1, 1, 0],
  ] as const) {
    expect(run(H, G, K)).toThrow(`with H a multiple of G and none of H, G, K 0: got [1,${H},2,${K ?? 4}]`);
  }
  expect(() => attention(zeros([2, 2, 4]), zeros([2, 2, 4]), zeros([2, 2, 4]))).toThrow(
    "attention takes q [B, H, T, K]",
  );
  expect(run(4, 2)().shape).toEqual([1, 4, 2, 4]);
});
