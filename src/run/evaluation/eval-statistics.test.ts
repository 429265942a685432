import { describe, expect, test } from "vitest";
import { Random } from "../../random/random.ts";
import { estimate, majorityReward, passAtK } from "./eval-statistics.ts";

describe("pass@k", () => {
  test("is one minus the chance to draw only wrong ones", () => {
    // C(3, 2) / C(5, 2) = 3 / 10.
    expect(passAtK(5, 2, 2)).toBeCloseTo(0.7, 12);
    expect(passAtK(4, 1, 1)).toBeCloseTo(0.25, 12);
  });

  test("is 0 without a right sample, and 1 where there are not k wrong ones", () => {
    expect(passAtK(8, 0, 8)).toBe(0);
    expect(passAtK(8, 5, 4)).toBe(1);
  });

  test("is unbiased: its mean over all draws of n is the chance of k draws", () => {
    const [p, n, k] = [0.3, 6, 3];
    const choose = (m: number, c: number): number => (c === 0 ? 1 : (choose(m, c - 1) * (m - c + 1)) / c);
    let expected = 0;
    for (let c = 0; c <= n; c++) expected += choose(n, c) * p ** c * (1 - p) ** (n - c) * passAtK(n, c, k);
    expect(expected).toBeCloseTo(1 - (1 - p) ** k, 12);
  });
});

describe("a majority", () => {
  const isSame = (one: string, other: string) => Number(one) === Number(other);
  const votes = (...pairs: readonly [string | null, number][]) => pairs.map(([answer, reward]) => ({ answer, reward }));

  test("joins answers that mean the same, and has the reward of the largest camp", () => {
    expect(majorityReward(votes(["7", 0], ["0.5", 1], ["7", 0], [".50", 1], ["5e-1", 1]), isSame)).toBe(1);
  });

  test("shares the reward between camps of the same size", () => {
    expect(majorityReward(votes(["1", 1], ["2", 0], ["3", 0], ["1", 1], ["2", 0]), isSame)).toBe(0.5);
  });

  test("does not count replies without an answer, and falls back to their mean", () => {
    expect(majorityReward(votes([null, 0], [null, 0], ["4", 1]), isSame)).toBe(1);
    expect(majorityReward(votes([null, 0.5], [null, 0]), isSame)).toBe(0.25);
  });
});

describe("an interval", () => {
  test("of a share is Wilson's", () => {
    const { value, low, high } = estimate([1, 1, 1, 1, 1, 1, 1, 0, 0, 0], new Random(1));
    // (0.7 + z^2 / 20 +- z sqrt(0.021 + z^2 / 400)) / (1 + z^2 / 10), z = 1.96.
    expect(value).toBeCloseTo(0.7, 12);
    expect(low).toBeCloseTo(0.3967782, 6);
    expect(high).toBeCloseTo(0.8922087, 6);
  });

  test("of a share that is 0 still has a width", () => {
    const { value, low, high } = estimate([0, 0, 0, 0], new Random(1));
    expect([value, low]).toEqual([0, 0]);
    expect(high).toBeCloseTo(1.959964 ** 2 / (4 + 1.959964 ** 2), 6);
  });

  test("of other values comes from prompts drawn again, the same for the same seed", () => {
    const values = Array.from({ length: 400 }, (_, i) => (i % 4) / 3);
    const { value, low, high } = estimate(values, new Random(3));
    expect(value).toBeCloseTo(0.5, 12);
    // The deviation of a mean of 400 values with a deviation of sqrt(5)/6 is 0.0186.
    expect(low).toBeCloseTo(0.5 - 1.96 * 0.0186, 2);
    expect(high).toBeCloseTo(0.5 + 1.96 * 0.0186, 2);
    expect(estimate(values, new Random(3))).toEqual({ value, low, high });
  });
});
