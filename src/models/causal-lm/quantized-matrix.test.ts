import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { randn, tensor } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type Quantization, QuantizedMatrix } from "./quantized-matrix.ts";

/** What a row of 32 values becomes. */
function through(values: readonly number[], quantization: Quantization): number[] {
  return tensorScope(() => {
    const row = [...values, ...new Array<number>(32 - values.length).fill(0)];
    const matrix = new QuantizedMatrix(tensor([row]), quantization);
    const expanded = matrix.expand().add(0).toArray().slice(0, values.length);
    matrix.dispose();
    return expanded;
  });
}

test("int8 keeps whole steps of the largest magnitude over 127, and rounds to the nearest one", () => {
  expect(through([127, -127, 3, 0], "int8")).toEqual([127, -127, 3, 0]);
  expect(through([254, 3, -5], "int8")).toEqual([254, 4, -4]);
});

test("int4 has 16 steps, with the value of the largest magnitude at the end of 8", () => {
  expect(through([8, 7, -7, 0.4, 3.6], "int4")).toEqual([8, 7, -7, 0, 4]);
  expect(through([-16, 14, 3], "int4")).toEqual([-16, 14, 4]);
});

test("nf4 takes the nearest level of a normal distribution, and ends and zero as they are", () => {
  const [first, zero, last, near] = through([-2, 0, 2, 1], "nf4");
  expect([first, zero, last]).toEqual([-2, 0, 2]);
  expect(near).toBeCloseTo(2 * 0.44070982933044434, 6);
});

test("a block of zeros stays one, and another block of the same row has a scale of its own", () => {
  const row = [...new Array<number>(32).fill(0), 1000, ...new Array<number>(31).fill(0)];
  tensorScope(() => {
    for (const quantization of ["int8", "int4", "nf4"] as const) {
      const matrix = new QuantizedMatrix(tensor([row]), quantization);
      expect(matrix.expand().add(0).toArray()).toEqual(row);
      matrix.dispose();
    }
  });
});

test.each([
  ["int8", 0.01, 1.125],
  ["int4", 0.11, 0.625],
  ["nf4", 0.1, 0.625],
] as const)(
  "%s loses at most %f of random weights, in %f bytes a value, and what it holds stays the same",
  (quantization, bar, bytes) => {
    tensorScope(() => {
      const generator = new Generator(1);
      const weight = randn([64, 96], { generator });
      const matrix = new QuantizedMatrix(weight, quantization);
      const values = matrix.expand();
      expect(values.sub(weight).norm().item() / weight.norm().item()).toBeLessThan(bar);
      expect(matrix.numBytes).toBe(64 * 96 * bytes);
      const again = new QuantizedMatrix(values, quantization);
      expect(again.expand().sub(values).abs().max().item()).toBeLessThan(1e-6);
      for (const one of [matrix, again]) one.dispose();
    });
  },
);

test("its product and the gradient of it are those of the values it stands for", () => {
  tensorScope(() => {
    const generator = new Generator(2);
    const matrix = new QuantizedMatrix(randn([6, 32], { generator }), "nf4");
    const x = randn([5, 32], { generator });
    x.requiresGrad = true;
    const direction = randn([5, 6], { generator });
    const gradientOf = (y: Tensor) => gradients([y.mul(direction).sum()], [x])[0]!;
    const plain = x.mm(matrix.expand().t());
    const made = matrix.linear(x);
    expect(made.sub(plain).abs().max().item()).toBe(0);
    expect(gradientOf(made).sub(gradientOf(plain)).abs().max().item()).toBeLessThan(1e-6);
    matrix.dispose();
  });
});

test("rows that are no whole number of blocks are refused", () => {
  expect(() => tensorScope(() => new QuantizedMatrix(tensor([[1, 2, 3]]), "nf4"))).toThrow(
    "a matrix of [1, 3] cannot be quantized: its rows must be multiples of 32 values",
  );
});
