import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { applyRope, ropeTables } from "./rope.ts";

test("the tables hold each angle twice", () => {
  // Head size 4 and theta 100: angles t and t / 10.
  const { cos_TK, sin_TK } = ropeTables(3, 4, 100);
  expect(cos_TK.shape).toEqual([3, 4]);
  const expected = [0, 1, 2].flatMap((t) => [t, t / 10, t, t / 10]);
  for (const [i, cos] of cos_TK.toArray().entries()) expect(cos).toBeCloseTo(Math.cos(expected[i]!), 6);
  for (const [i, sin] of sin_TK.toArray().entries()) expect(sin).toBeCloseTo(Math.sin(expected[i]!), 6);
});

test("rope rotates the pair (x[k], x[k + K/2]) by the angle of its position", () => {
  const { cos_TK, sin_TK } = ropeTables(2, 2, 10000);
  const x_BHTK = tensor([
    [
      [
        [1, 0],
        [1, 0],
      ],
    ],
  ]);
  const [atZero, , cos, sin] = applyRope(x_BHTK, cos_TK, sin_TK).toArray();
  expect(atZero).toBe(1);
  expect(cos).toBeCloseTo(Math.cos(1), 6);
  expect(sin).toBeCloseTo(Math.sin(1), 6);
});

test("scores after rope depend on the distance of positions only", () => {
  const { cos_TK, sin_TK } = ropeTables(8, 4, 10000);
  const rows = (values: number[]) => tensor([[Array.from({ length: 8 }, () => values)]]);
  const q_TK = applyRope(rows([0.3, -1, 0.5, 2]), cos_TK, sin_TK).view(8, 4);
  const k_TK = applyRope(rows([1, 0.2, -0.7, 0.4]), cos_TK, sin_TK).view(8, 4);
  const scores = q_TK.mm(k_TK.t()).toArray();
  // Distance 3, at two places.
  expect(scores[3 * 8 + 0]).toBeCloseTo(scores[7 * 8 + 4]!, 5);
});

test("an odd head size has no pairs", () => {
  expect(() => ropeTables(4, 3, 10000)).toThrow("headSize must be even for rotary embedding: got 3.");
});
