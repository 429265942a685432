import { expect, test } from "vitest";
import { noGrad } from "./autograd.ts";
import { ones, randn, tensor } from "./create.ts";
import { Generator } from "./random.ts";
import { linear } from "./steady-products.ts";
import { swiglu, swigluLinear, swigluMlp, swigluProduct } from "./swiglu.ts";
import type { Tensor } from "./tensor.ts";

test("swiglu needs two halves: silu(1) * 2 for [1 | 2], and an odd width is refused", () => {
  const pair = ones([1, 2]);
  pair.select(1, 1).mul_(2);
  expect(swiglu(pair).item()).toBeCloseTo(2 / (1 + Math.exp(-1)), 6);
  expect(() => swiglu(ones([2, 5]))).toThrow("got shape [2, 5]. Its last size must be even");
  expect(() => swiglu(ones([]))).toThrow("got shape []");
});

test("swigluLinear is swiglu and a product: 3 silu(1) 2 for [1 | 2] and a weight of 3", () => {
  const [gateUp, weight] = [tensor([[1, 2]]), tensor([[3]])];
  for (const leaf of [gateUp, weight]) leaf.requiresGrad = true;
  const out = swigluLinear(gateUp, weight);
  const silu = 1 / (1 + Math.exp(-1));
  expect(out.item()).toBeCloseTo(6 * silu, 5);
  out.sum().backward();
  expect(weight.grad!.item()).toBeCloseTo(2 * silu, 5);
  expect(gateUp.grad!.toArray()[1]).toBeCloseTo(3 * silu, 5);
});

/** Weights of gate above up for two rows of five, three activations and two results. */
function leaves(): readonly [x: Tensor, gateUpWeight: Tensor, weight: Tensor] {
  const generator = new Generator(3);
  const leaf = (...shape: number[]) => randn(shape, { generator, dtype: "float64" });
  return [leaf(2, 5), leaf(6, 5), leaf(2, 3)];
}

const composed = (x: Tensor, gateUpWeight: Tensor, weight: Tensor) => linear(swiglu(linear(x, gateUpWeight)), weight);

test("swigluMlp gives what its parts give one by one, and their gradients, whichever of its inputs are trained", () => {
  for (const trained of [0b111, 0b011, 0b101, 0b110, 0b001, 0b010, 0b100]) {
    const [own, apart] = [swigluMlp, composed].map((mlp) => {
      const inputs = leaves();
      inputs.forEach((one, i) => {
        one.requiresGrad = (trained >> i) % 2 === 1;
      });
      const out = mlp(...inputs);
      out.mul(out.detach()).sum().backward();
      return [out, ...inputs.map((one) => one.grad)].map((one) => one?.toArray() ?? null);
    });
    own!.forEach((values, i) => {
      const expected = apart![i]!;
      if (expected === null) expect(values).toBeNull();
      else for (const [k, value] of expected.entries()) expect(values![k]).toBeCloseTo(value, 12);
    });
  }
});

test("where nobody reads the result of swigluMlp, its gradients are right all the same", () => {
  const gradients = [true, false].map((isRead) => {
    const inputs = leaves();
    for (const one of inputs) one.requiresGrad = true;
    const out = swigluMlp(...inputs, isRead);
    out.backward(ones([2, 2], { dtype: "float64" }));
    return inputs.map((one) => one.grad!.toArray());
  });
  expect(gradients[1]).toEqual(gradients[0]);
});

test("without gradients swigluProduct is the inner part alone, and swigluMlp goes on from it", () => {
  const [x, gateUpWeight, weight] = leaves();
  noGrad(() => {
    const inner = swigluProduct(x, gateUpWeight);
    expect(inner.toArray()).toEqual(swiglu(linear(x, gateUpWeight)).toArray());
    expect(swigluMlp(x, gateUpWeight, weight).toArray()).toEqual(linear(inner, weight).toArray());
  });
});
