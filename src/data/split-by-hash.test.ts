import fc from "fast-check";
import { expect, test } from "vitest";
import { splitByHash } from "./split-by-hash.ts";

test("every row falls on one side, whatever rows are before, behind or between", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string()),
      fc.array(fc.string()),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (rows, more, share) => {
        const split = splitByHash(rows, share);
        const grown = splitByHash([...more, ...rows.toReversed()], share);
        expect(split.train.length + split.validation.length).toBe(rows.length);
        const inValidation = new Set(grown.validation);
        for (const row of split.train) expect(inValidation.has(row)).toBe(false);
        for (const row of split.validation) expect(inValidation.has(row)).toBe(true);
      },
    ),
  );
});

test("the share holds within four standard deviations, and a smaller share is part of a larger one", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => ({ question: `row ${i}`, answer: i % 3 }));
  const large = splitByHash(rows, 0.1, ({ question }) => question);
  // sqrt(10000 * 0.1 * 0.9) = 30
  expect(Math.abs(large.validation.length - 1000)).toBeLessThan(120);
  const small = splitByHash(rows, 0.02, ({ question }) => question);
  const inLarge = new Set(large.validation);
  expect(small.validation.length).toBeGreaterThan(0);
  expect(small.validation.every((row) => inLarge.has(row))).toBe(true);
});

test("rows that ask the same fall on the same side", () => {
  const rows = Array.from({ length: 50 }, (_, i) => ({ question: "same", answer: i }));
  const { train, validation } = splitByHash(rows, 0.5, ({ question }) => question);
  expect([0, 50]).toContain(train.length);
  expect(train.length + validation.length).toBe(50);
});

test("a share of 0 leaves nothing for validation, one of 1 everything; others are refused", () => {
  expect(splitByHash(["a", "b"], 0)).toEqual({ train: ["a", "b"], validation: [] });
  expect(splitByHash(["a", "b"], 1)).toEqual({ train: [], validation: ["a", "b"] });
  expect(() => splitByHash([], 1.5)).toThrow("must be 0 to 1: got 1.5.");
});
