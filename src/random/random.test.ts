import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import { deriveSeed, Random, type RandomState } from "./random.ts";

/** Sum of (observed - expected)^2 / expected over cells that are all as likely. */
function chiSquare(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

function tally(numCells: number, numDraws: number, cell: (i: number) => number): number[] {
  const counts = new Array<number>(numCells).fill(0);
  for (let i = 0; i < numDraws; i++) counts[cell(i)]!++;
  return counts;
}

/** The 99.9 % points of chi-square with 63 and 119 degrees of freedom. */
const CHI_63 = 103.4;
const CHI_119 = 172.7;

describe("Random", () => {
  test("follows xoshiro128**: from the state 1, 2, 3, 4 the first words are 11520, 0, 5927040 and 70819200", () => {
    const random = new Random([1, 2, 3, 4]);
    // uniform joins the upper 27 bits of one word and the upper 26 of the next.
    expect(random.uniform()).toBe(((11520 >>> 5) * 2 ** 26 + (0 >>> 6)) / 2 ** 53);
    expect(random.uniform()).toBe(((5927040 >>> 5) * 2 ** 26 + (70819200 >>> 6)) / 2 ** 53);
  });

  test("the same seed gives the same numbers, another seed others", () => {
    const draw = (seed: number) => {
      const random = new Random(seed);
      return [random.uniform(), random.integer(1000), random.normal()];
    };
    expect(draw(7)).toEqual(draw(7));
    expect(draw(7)).not.toEqual(draw(8));
  });

  test("goes on from a saved state exactly, wherever it was saved", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.nat(50), (seed, numBefore) => {
        const random = new Random(seed);
        for (let i = 0; i < numBefore; i++) random.uniform();
        const copy = new Random(JSON.parse(JSON.stringify(random.state())) as RandomState);
        const rest = (from: Random) =>
          Array.from({ length: 5 }, () => [from.uniform(), from.integer(9), from.normal()]);
        expect(rest(copy)).toEqual(rest(random));
      }),
    );
  });

  test("reading the state draws nothing", () => {
    const random = new Random(3);
    expect(random.state()).toEqual(random.state());
  });

  test("uniform numbers lie in [0, 1) and fill 64 cells evenly", () => {
    const random = new Random(1);
    const counts = tally(64, 64_000, () => Math.floor(random.uniform() * 64));
    expect(chiSquare(counts)).toBeLessThan(CHI_63);
    expect(counts.every((count) => count > 0)).toBe(true);
  });

  test("neighboring uniform numbers do not depend on each other", () => {
    const random = new Random(2);
    const cell = () => Math.floor(random.uniform() * 8) * 8 + Math.floor(random.uniform() * 8);
    expect(chiSquare(tally(64, 64_000, cell))).toBeLessThan(CHI_63);
  });

  test("all 120 orders of five values are as likely", () => {
    const random = new Random(4);
    const orders = new Map<string, number>();
    for (let i = 0; i < 60_000; i++) {
      const order = random.shuffled([0, 1, 2, 3, 4]).join("");
      orders.set(order, (orders.get(order) ?? 0) + 1);
    }
    expect(orders.size).toBe(120);
    expect(chiSquare([...orders.values()])).toBeLessThan(CHI_119);
  });

  test("a shuffle keeps every value and leaves the given list alone", () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.maxSafeInteger(), (values, seed) => {
        const before = [...values];
        const shuffled = new Random(seed).shuffled(values);
        expect(values).toEqual(before);
        expect(shuffled.toSorted((a, b) => a - b)).toEqual(values.toSorted((a, b) => a - b));
      }),
    );
  });

  test("pick reaches every value", () => {
    const random = new Random(5);
    expect(new Set(Array.from({ length: 100 }, () => random.pick(["a", "b", "c"])))).toEqual(new Set(["a", "b", "c"]));
  });

  test("normal numbers have mean 0, variance 1 and no skew, within four standard errors", () => {
    const random = new Random(6);
    const values = Array.from({ length: 40_000 }, () => random.normal());
    const moment = (power: number) => values.reduce((sum, value) => sum + value ** power, 0) / values.length;
    // The standard errors are sqrt(1/n), sqrt(2/n) and sqrt(15/n).
    expect(Math.abs(moment(1))).toBeLessThan(4 * Math.sqrt(1 / 40_000));
    expect(Math.abs(moment(2) - 1)).toBeLessThan(4 * Math.sqrt(2 / 40_000));
    expect(Math.abs(moment(3))).toBeLessThan(4 * Math.sqrt(15 / 40_000));
  });

  test("refuses a count that is no whole number above 0, and a seed that is not whole", () => {
    expect(() => new Random(1).integer(0)).toThrow("Random.integer needs a whole number above 0: got 0.");
    expect(() => new Random(1).integer(2.5)).toThrow(RerollError);
    expect(() => new Random(1).pick([])).toThrow(RerollError);
    expect(() => new Random(0.5)).toThrow("A seed must be a whole number: got 0.5.");
  });
});

describe("deriveSeed", () => {
  test("is a whole number of 32 bits that depends on the seed and on every key in its place", () => {
    const seeds = [
      deriveSeed(1),
      deriveSeed(2),
      deriveSeed(1 + 2 ** 32),
      deriveSeed(1, "a"),
      deriveSeed(1, "b"),
      deriveSeed(1, "a", 0),
      deriveSeed(1, 0, "a"),
      deriveSeed(1, "ab"),
      deriveSeed(1, "a", "b"),
      deriveSeed(1, 1),
      deriveSeed(1, "1"),
    ];
    expect(new Set(seeds).size).toBe(seeds.length);
    for (const seed of seeds) expect(seed >>> 0).toBe(seed);
    expect(deriveSeed(1, "a", 0)).toBe(deriveSeed(1, "a", 0));
  });

  test("neighboring keys give seeds that fill 64 cells evenly, in their high bits and in their low ones", () => {
    const seedOf = (i: number) => deriveSeed(0, "group", i);
    expect(chiSquare(tally(64, 64_000, (i) => seedOf(i) >>> 26))).toBeLessThan(CHI_63);
    expect(chiSquare(tally(64, 64_000, (i) => seedOf(i) & 63))).toBeLessThan(CHI_63);
  });

  test("one changed bit of the key changes every bit of the seed about half of the time", () => {
    const numKeys = 2000;
    for (const keyBit of [0, 7, 31]) {
      const flips = new Array<number>(32).fill(0);
      for (let key = 0; key < numKeys; key++) {
        const changed = deriveSeed(9, key) ^ deriveSeed(9, key ^ (1 << keyBit));
        for (let bit = 0; bit < 32; bit++) flips[bit]! += (changed >>> bit) & 1;
      }
      // Five standard deviations of a fair coin thrown 2000 times are 112.
      for (const count of flips) expect(Math.abs(count - numKeys / 2)).toBeLessThan(112);
    }
  });

  test("streams of neighboring seeds are not correlated", () => {
    const first = Array.from({ length: 20_000 }, (_, i) => new Random(deriveSeed(1, i)).uniform() - 0.5);
    const second = Array.from({ length: 20_000 }, (_, i) => new Random(deriveSeed(1, i + 1)).uniform() - 0.5);
    const covariance = first.reduce((sum, value, i) => sum + value * second[i]!, 0) / first.length;
    // The variance of a uniform number is 1/12, so the standard error of the correlation is 1/sqrt(n).
    expect(Math.abs(covariance * 12)).toBeLessThan(4 / Math.sqrt(20_000));
  });
});
