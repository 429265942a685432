import { expect, test } from "vitest";
import { type Llama3Rope, llama3RopeFactors, recoverLlama3Rope } from "./llama3-rope.ts";

const rope = (factor: number, high: number, original: number): Llama3Rope => ({
  rope_type: "llama3",
  factor,
  low_freq_factor: 1,
  high_freq_factor: high,
  original_max_position_embeddings: original,
});

test("factors are 1 for short waves, the factor for long ones, and blend between", () => {
  // Head of 8, base 10^4: waves 2 pi 10^i = 6.28, 62.8, 628, 6283. For 100 tokens, ratio 4: below 25, between, above 100, above.
  // 62.8: s = (100 / 62.83 - 1) / 3 = 0.19718, and 1 / ((1 - s) / 8 + s) = 3.36095.
  const factors = llama3RopeFactors(rope(8, 4, 100), 10_000, 8);
  expect([factors[0], factors[2], factors[3]]).toEqual([1, 8, 8]);
  expect(factors[1]).toBeCloseTo(3.36095, 4);
});

test("the scaling of Llama 3.1 and 3.2 is recovered from its factors", () => {
  for (const [factor, headSize] of [
    [8, 128],
    [32, 64],
  ] as const) {
    const original = rope(factor, 4, 8192);
    expect(recoverLlama3Rope(llama3RopeFactors(original, 500_000, headSize), 500_000)).toEqual(original);
  }
});

test("another context is recovered, from one blended factor or several", () => {
  for (const headSize of [16, 128]) {
    const original = rope(8, 4, 64);
    expect(recoverLlama3Rope(llama3RopeFactors(original, 500_000, headSize), 500_000)).toEqual(original);
  }
});

test("another ratio is recovered from two blended factors", () => {
  const recovered = recoverLlama3Rope(llama3RopeFactors(rope(4, 6, 2048), 500_000, 128), 500_000);
  expect(recovered?.original_max_position_embeddings).toBe(2048);
  expect(recovered?.high_freq_factor).toBeCloseTo(6, 2);
});

test("without a blended factor any context between the plateaus gives the same factors", () => {
  const factors = Float32Array.of(1, 8);
  const recovered = recoverLlama3Rope(factors, 1_000_000);
  expect(recovered).not.toBeNull();
  expect([...llama3RopeFactors(recovered!, 1_000_000, 4)]).toEqual([1, 8]);
});

test("factors of another kind are not recovered", () => {
  expect(recoverLlama3Rope(Float32Array.of(1, 3, 2, 8), 10_000)).toBeNull();
  expect(recoverLlama3Rope(Float32Array.of(Number.NaN, 1), 10_000)).toBeNull();
});
