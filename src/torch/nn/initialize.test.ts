import { describe, expect, test } from "vitest";
import { ones } from "../create.ts";
import { Generator } from "../random.ts";
import { createParameter, initialize, reinitialize } from "./initialize.ts";

const generator = new Generator(3);

describe("orthogonal", () => {
  test.each([
    { shape: [3, 5], isWide: true },
    { shape: [5, 3], isWide: false },
  ])("gives a $shape matrix whose shorter side is orthonormal, times the gain", ({ shape, isWide }) => {
    const w = initialize.orthogonal(2)(shape, { generator });
    const product = isWide ? w.mm(w.t()) : w.t().mm(w);
    const expected = [4, 0, 0, 0, 4, 0, 0, 0, 4];
    for (const [i, value] of product.toArray().entries()) expect(value).toBeCloseTo(expected[i]!, 5);
  });

  test("takes the dimensions after the first as one", () => {
    const w = initialize.orthogonal()([2, 3, 2], { generator });
    const rows = w.flatten(1);
    const expected = [1, 0, 0, 1];
    for (const [i, value] of rows.mm(rows.t()).toArray().entries()) expect(value).toBeCloseTo(expected[i]!, 5);
  });
});

test("truncated normal stays within two standard deviations", () => {
  const values = initialize.truncatedNormal(1, 0.1)([1000], { generator });
  expect(values.min().item()).toBeGreaterThanOrEqual(0.8 - 1e-6);
  expect(values.max().item()).toBeLessThanOrEqual(1.2 + 1e-6);
  // The standard deviation of a normal cut off at two is 0.88 of the uncut one's.
  expect(values.std().item()).toBeCloseTo(0.088, 2);
});

test("xavier uses both fans: a [200, 400] weight is uniform within sqrt(6 / 600) = 0.1", () => {
  const values = initialize.xavierUniform()([200, 400], { generator });
  expect(values.max().item()).toBeCloseTo(0.1, 4);
  expect(values.min().item()).toBeCloseTo(-0.1, 4);
});

test("kaiming uses the fan in: a [300, 100] weight has standard deviation sqrt(2 / 100)", () => {
  const values = initialize.kaimingNormal()([300, 100], { generator });
  expect(values.std().item()).toBeCloseTo(Math.sqrt(0.02), 2);
});

test("one seed gives one set of values", () => {
  const draw = () =>
    initialize
      .normal(0, 1)([4], { generator: new Generator(9) })
      .toArray();
  expect(draw()).toEqual(draw());
});

test("values are drawn in float32 and rounded to the type that is asked for", () => {
  const draw = (dtype: "float32" | "bfloat16") =>
    initialize.uniform(-1, 1)([16], { generator: new Generator(1), dtype });
  expect(draw("bfloat16").toArray()).toEqual(draw("float32").to("bfloat16").toArray());
});

test("a parameter is reinitialized in place and stays trainable", () => {
  const parameter = createParameter([2, 2], ones, {});
  reinitialize(parameter, initialize.zeros, generator);
  expect(parameter.toArray()).toEqual([0, 0, 0, 0]);
  expect(parameter.requiresGrad).toBe(true);
  expect(parameter.isLeaf).toBe(true);
});

test("a vector has no fans and no orthogonal form", () => {
  expect(() => initialize.orthogonal()([4], { generator })).toThrow(/two dimensions or more: got \[4\]/);
  expect(() => initialize.xavierNormal()([4], { generator })).toThrow(/two dimensions or more: got \[4\]/);
});
