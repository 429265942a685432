import fc from "fast-check";
import { expect, test } from "vitest";
import { SumTree } from "./sum-tree.ts";

test("a place in the total finds the slot whose stretch holds it", () => {
  const tree = new SumTree(5);
  for (const [slot, weight] of [2, 0, 1, 4, 3].entries()) tree.set(slot, weight);
  expect(tree.total).toBe(10);
  expect([0, 1.9, 2, 2.9, 3, 6.9, 7, 9.9].map((place) => tree.find(place))).toEqual([0, 0, 2, 2, 3, 3, 4, 4]);
  tree.set(3, 0);
  expect(tree.total).toBe(6);
  expect([2.5, 3, 5.9].map((place) => tree.find(place))).toEqual([2, 4, 4]);
});

test("a tree of one slot is that slot", () => {
  const tree = new SumTree(1);
  tree.set(0, 0.5);
  expect([tree.total, tree.find(0), tree.find(0.49)]).toEqual([0.5, 0, 0]);
});

const someSets = fc.array(fc.tuple(fc.nat(12), fc.nat(50)), { minLength: 1, maxLength: 60 });

test("it finds what a walk over all weights finds, after any sets", () => {
  fc.assert(
    fc.property(someSets, fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })), (sets, shares) => {
      const tree = new SumTree(13);
      const weights = new Array<number>(13).fill(0);
      for (const [slot, weight] of sets) {
        tree.set(slot, weight);
        weights[slot] = weight;
      }
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      // Whole numbers add up exactly in any order.
      expect(tree.total).toBe(total);
      expect(weights.map((_, slot) => tree.get(slot))).toEqual(weights);
      if (total === 0) return;
      for (const share of shares) expect(tree.find(share * total)).toBe(walk(weights, share * total));
    }),
  );
});

test("a slot without weight is never found, however the sums are rounded", () => {
  const weight = fc.oneof(fc.constant(0), fc.double({ min: 1e-12, max: 1e12, noNaN: true }));
  fc.assert(
    fc.property(fc.array(weight, { minLength: 1, maxLength: 40 }), (weights) => {
      const tree = new SumTree(weights.length);
      for (const [slot, value] of weights.entries()) tree.set(slot, value);
      if (tree.total === 0) return;
      for (const share of [0, 0.3, 0.999999, 1 - 2 ** -53, 1]) {
        expect(weights[tree.find(share * tree.total)]).toBeGreaterThan(0);
      }
    }),
  );
});

function walk(weights: readonly number[], place: number): number {
  let rest = place;
  for (const [slot, weight] of weights.entries()) {
    if (rest < weight) return slot;
    rest -= weight;
  }
  throw new Error("the place is beyond the total");
}
