import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import type { DType } from "../dtype.ts";
import { Parameter } from "../nn/module.ts";
import { boundGradNorm, clipGradNorm } from "./clip-grad-norm.ts";

function withGradient(values: number[], dtype: DType = "float32"): Parameter {
  const parameter = new Parameter(tensor(values, { dtype }));
  parameter.grad = tensor(values, { dtype });
  return parameter;
}

test("gradients longer than the maximum are scaled to it, all by one factor", () => {
  const a = withGradient([3]);
  const b = withGradient([0, 4]);
  expect(clipGradNorm([a, b], 1).item()).toBe(5);
  expect(a.grad!.item()).toBeCloseTo(0.6, 5);
  expect(b.grad!.toArray()[1]).toBeCloseTo(0.8, 5);
});

test("shorter gradients stay as they are", () => {
  const a = withGradient([3]);
  expect(clipGradNorm([a], 4).item()).toBe(3);
  expect(a.grad!.item()).toBe(3);
});

test("an infinite maximum only measures", () => {
  const a = withGradient([3]);
  expect(clipGradNorm([a, withGradient([4])], Number.POSITIVE_INFINITY).item()).toBe(5);
  expect(a.grad!.item()).toBe(3);
});

test("types may be mixed, and 16-bit gradients are summed in float32", () => {
  // The sum of 1000 ones would stop at 256 in bfloat16.
  const half = withGradient(
    Array.from({ length: 1000 }, () => 1),
    "bfloat16",
  );
  const single = withGradient([Math.sqrt(9000)]);
  const double = withGradient([0], "float64");
  const norm = clipGradNorm([half, single, double], 1);
  expect(norm.dtype).toBe("float64");
  expect(norm.item()).toBeCloseTo(100, 4);
  expect(single.grad!.item()).toBeCloseTo(Math.sqrt(9000) / 100, 5);
  expect(half.grad!.dtype).toBe("bfloat16");
  expect(half.grad!.toArray()[0]).toBeCloseTo(0.01, 4);
});

test("parameters without gradient do not count, nor does one that is given twice", () => {
  const a = withGradient([3]);
  expect(clipGradNorm([a, new Parameter(tensor([7])), a], 10).item()).toBe(3);
  expect(clipGradNorm([new Parameter(tensor([7]))], 1).item()).toBe(0);
});

test("a norm that is not finite throws when asked to, and leaves the gradients", () => {
  const a = withGradient([Number.POSITIVE_INFINITY]);
  const b = withGradient([1]);
  expect(() => clipGradNorm([a, b], 1, { errorIfNonFinite: true })).toThrow(/The norm of the gradients is Infinity/);
  expect(b.grad!.item()).toBe(1);
  expect(clipGradNorm([a, b], 1).item()).toBe(Number.POSITIVE_INFINITY);
});

test("the maximum must be above zero", () => {
  expect(() => clipGradNorm([], 0)).toThrow("maxNorm must be above 0: got 0.");
});

test("on the CPU gradients are bound at once, and no factor is left", () => {
  const a = withGradient([3]);
  const b = withGradient([0, 4]);
  const { norm, factor } = boundGradNorm([a, b], 1);
  expect([norm.item(), factor]).toEqual([5, null]);
  expect(a.grad!.item()).toBeCloseTo(0.6, 5);
});
