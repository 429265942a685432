import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { Generator } from "../random.ts";
import { initialize } from "./initialize.ts";
import { Linear } from "./linear.ts";

const generator = new Generator(0);

test("linear multiplies by the transposed weight and adds the bias", () => {
  const linear = new Linear(2, 3, { generator });
  linear.loadStateDict(
    new Map([
      [
        "weight",
        tensor([
          [1, 2],
          [3, 4],
          [5, 6],
        ]),
      ],
      ["bias", tensor([10, 20, 30])],
    ]),
  );
  expect(
    linear
      .forward(
        tensor([
          [1, -1],
          [0, 2],
        ]),
      )
      .toArray(),
  ).toEqual([9, 19, 29, 14, 28, 42]);
});

test("linear without bias has one parameter", () => {
  const linear = new Linear(2, 2, { generator, hasBias: false, initialWeight: initialize.ones });
  expect([...linear.namedParameters().keys()]).toEqual(["weight"]);
  expect(linear.forward(tensor([3, 4])).toArray()).toEqual([7, 7]);
});

test("linear passes gradients to weight, bias and input", () => {
  const linear = new Linear(2, 1, { generator, initialWeight: initialize.ones, initialBias: initialize.zeros });
  const x = tensor([[2, 3]]);
  x.requiresGrad = true;
  linear.forward(x).sum().backward();
  expect(linear.weight.grad!.toArray()).toEqual([2, 3]);
  expect(linear.bias!.grad!.toArray()).toEqual([1]);
  expect(x.grad!.toArray()).toEqual([1, 1]);
});

test("linear names the width it needs", () => {
  const linear = new Linear(4, 2, { generator });
  expect(() => linear.forward(tensor([[1, 2, 3]]))).toThrow(
    /Linear got an input of shape \[1, 3\]. The last dimension must be 4/,
  );
});
