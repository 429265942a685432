import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../../random/random.ts";
import { tensor } from "../../torch/create.ts";
import { shuffledMinibatches } from "./minibatches.ts";

test("every row is in one minibatch, and its columns stay together", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 8 }), fc.nat(), (numRows, count, seed) => {
      const ids = Array.from({ length: numRows }, (_, row) => row);
      const rows = { ids: tensor(ids), pairs: tensor(ids.map((id) => [id, -id])) };
      const parts = shuffledMinibatches(rows, Math.min(count, numRows), new Random(seed));
      const seen = parts.flatMap((part) => part.ids.toArray());
      expect(seen.toSorted((a, b) => a - b)).toEqual(ids);
      const pairs = parts.flatMap((part) => part.pairs.toArray());
      expect(pairs).toEqual(seen.flatMap((id) => [id, -id]));
    }),
    { numRuns: 50 },
  );
});

test("rows that do not divide are spread evenly: no minibatch is left with a single one", () => {
  const sizesOf = (numRows: number, count: number) =>
    shuffledMinibatches({ ids: tensor(Array.from({ length: numRows }, Number)) }, count, new Random(1)).map(
      ({ ids }) => ids.numel,
    );
  expect(sizesOf(10, 4)).toEqual([2, 3, 2, 3]);
  expect(sizesOf(100, 32)).toHaveLength(32);
  expect(sizesOf(2, 3)).toEqual([1, 1]);
});

test("the order is that of the seed", () => {
  const draw = (seed: number) =>
    shuffledMinibatches({ ids: tensor([0, 1, 2, 3, 4, 5, 6, 7]) }, 2, new Random(seed)).map(({ ids }) => ids.toArray());
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  expect(draw(1).map((part) => part.length)).toEqual([4, 4]);
});
