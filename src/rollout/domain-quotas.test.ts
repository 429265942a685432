import fc from "fast-check";
import { expect, test } from "vitest";
import { sharesOf, splitByShare } from "./domain-quotas.ts";

test("shares of 40, 30 and 30 in batches of 7 give back in later batches what rounding took", () => {
  const shares = sharesOf([40, 30, 30]);
  let owed: readonly number[] = [0, 0, 0];
  const batches = [0, 1, 2, 3].map(() => {
    const split = splitByShare(shares, owed, 7);
    owed = split.owed;
    return split.quotas;
  });
  // With what is owed: 2.8, 2.1, 2.1; then 2.6, 2.2, 2.2; then 2.4, 2.3, 2.3; then 2.2, 2.4, 2.4.
  expect(batches).toEqual([
    [3, 2, 2],
    [3, 2, 2],
    [3, 2, 2],
    [2, 3, 2],
  ]);
});

test("a domain with share 0 gets nothing", () => {
  expect(splitByShare(sharesOf([1, 0]), [0, 0], 5).quotas).toEqual([5, 0]);
});

test("ratios that are no shares are refused", () => {
  expect(() => sharesOf([])).toThrow(/not all 0: got \./);
  expect(() => sharesOf([0, 0])).toThrow(/got 0, 0/);
  expect(() => sharesOf([1, -1])).toThrow(/at least 0/);
  expect(() => sharesOf([1, Number.NaN])).toThrow(/got 1, NaN/);
});

test("quotas add up, are whole and not negative, and no domain is ever off its share by two groups", () => {
  fc.assert(
    fc.property(
      fc
        .array(fc.integer({ min: 0, max: 100 }), { minLength: 1, maxLength: 6 })
        .filter((all) => all.some((r) => r > 0)),
      fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 60 }),
      (ratios, batches) => {
        const shares = sharesOf(ratios);
        const delivered = ratios.map(() => 0);
        let owed: readonly number[] = ratios.map(() => 0);
        let total = 0;
        for (const numGroups of batches) {
          const split = splitByShare(shares, owed, numGroups);
          owed = split.owed;
          total += numGroups;
          expect(split.quotas.reduce((sum, quota) => sum + quota, 0)).toBe(numGroups);
          split.quotas.forEach((quota, domain) => {
            expect(Number.isSafeInteger(quota) && quota >= 0).toBe(true);
            delivered[domain]! += quota;
            expect(Math.abs(delivered[domain]! - shares[domain]! * total)).toBeLessThan(2);
          });
        }
      },
    ),
    { numRuns: 500 },
  );
});
