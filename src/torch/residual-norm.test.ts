import { expect, test } from "vitest";
import { tensor } from "./create.ts";
import { residualNorm } from "./residual-norm.ts";

test("the stream is the sum, and what is seen of it is divided by its root mean square and weighted", () => {
  const [x, delta, weight] = [tensor([[1, 2]]), tensor([[2, 2]]), tensor([1, 10])];
  const { sum, normed } = residualNorm(x, delta, weight, 0);
  // sqrt((9 + 16) / 2) = 3.5355
  expect(sum.toArray()).toEqual([3, 4]);
  expect(normed.toArray()[0]).toBeCloseTo(3 / 3.5355339, 5);
  expect(normed.toArray()[1]).toBeCloseTo(40 / 3.5355339, 5);
});

test("both gradients of the stream reach what was added up, and nothing is added for null", () => {
  const [x, delta, weight] = [tensor([[3, 4]]), tensor([[0, 0]]), tensor([1, 1])];
  for (const leaf of [x, delta, weight]) leaf.requiresGrad = true;
  const { sum, normed } = residualNorm(x, delta, weight, 0);
  // Of the norm itself only what turns x counts: d(x / r) = (I - x x' / 25) / 3.5355, applied to (1, 0).
  sum.sum().add(normed.select(1, 0).sum()).backward();
  const expected = [1 + 16 / 25 / 3.5355339, 1 - 12 / 25 / 3.5355339];
  for (const leaf of [x, delta]) {
    expect(leaf.grad!.toArray()[0]).toBeCloseTo(expected[0]!, 5);
    expect(leaf.grad!.toArray()[1]).toBeCloseTo(expected[1]!, 5);
  }
  expect(weight.grad!.toArray()[0]).toBeCloseTo(3 / 3.5355339, 5);
  expect(weight.grad!.toArray()[1]).toBe(0);
  expect(residualNorm(x, null, weight, 0).sum.toArray()).toEqual([3, 4]);
});
