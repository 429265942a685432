import fc from "fast-check";
import { expect, test } from "vitest";
import { thinOut } from "./thin-out.ts";

test("a range that is short enough is kept whole", () => {
  expect(thinOut([5, 6, 7, 8], 1, 4, 10)).toEqual([1, 2, 3]);
});

test("of each stretch the smallest and the largest are kept, in order, and both ends", () => {
  // Between the ends: 9 1 5 | 2 8 3. The first has its largest before its smallest.
  expect(thinOut([0, 9, 1, 5, 2, 8, 3, 0], 0, 8, 6)).toEqual([0, 1, 2, 4, 5, 7]);
});

test("a stretch of NaN is one point, and NaN beside numbers is none", () => {
  const values = [0, Number.NaN, Number.NaN, Number.NaN, 2, Number.NaN, 3, 0];
  expect(thinOut(values, 0, 8, 6)).toEqual([0, 1, 4, 6, 7]);
});

test("no extreme is ever lost, indices rise, and there are no more than were asked for", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ noNaN: true }), { minLength: 5, maxLength: 400 }),
      fc.integer({ min: 4, max: 60 }),
      (values, max) => {
        const kept = thinOut(values, 0, values.length, max);
        expect(kept.length).toBeLessThanOrEqual(max);
        expect(kept.every((index, i) => i === 0 || index > kept[i - 1]!)).toBe(true);
        const shown = kept.map((index) => values[index]!);
        expect([Math.min(...shown), Math.max(...shown)]).toEqual([Math.min(...values), Math.max(...values)]);
      },
    ),
  );
});
