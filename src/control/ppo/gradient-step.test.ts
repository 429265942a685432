import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { Parameter } from "../../torch/nn/module.ts";
import { SGD } from "../../torch/optim/sgd.ts";
import { GradientStep } from "./gradient-step.ts";

/** Two weights with an optimizer each, and a step that moves both. */
function setUp() {
  const [left, right] = [new Parameter(tensor([1, 2])), new Parameter(tensor([5]))];
  const optimizers = [left, right].map((weight) => new SGD(new Map([["weight", weight]]), { lr: 1 }));
  return { left, right, step: new GradientStep(optimizers) };
}

test("every network is clipped by its own norm, and norms are those from before", () => {
  const { left, right, step } = setUp();
  // Gradients (3, 4) and 0.5: the first is cut to length 1, the second is short enough.
  const norms = step.take(
    left
      .mul(tensor([3, 4]))
      .sum()
      .add(right.sum(), 0.5),
    1,
  );
  expect(norms?.map((norm) => norm.item())).toEqual([5, 0.5]);
  expect(left.toArray()[0]).toBeCloseTo(1 - 0.6, 5);
  expect(left.toArray()[1]).toBeCloseTo(2 - 0.8, 5);
  expect(right.toArray()).toEqual([4.5]);
});

test("gradients of the step before do not count", () => {
  const { right, step } = setUp();
  for (const expected of [4.5, 4]) {
    step.take(right.sum().mul(0.5), 1);
    expect(right.toArray()).toEqual([expected]);
  }
});

test.each([
  ["a loss that is no number", (weight: Parameter) => weight.sum().mul(Number.NaN)],
  ["a loss without bound", (weight: Parameter) => weight.sum().add(Number.POSITIVE_INFINITY)],
  ["a finite loss whose gradient overflows", (weight: Parameter) => weight.sub(5).sqrt().sum()],
])("%s changes no weight", (_, lossOf) => {
  const { left, right, step } = setUp();
  expect(step.take(lossOf(right), 1)).toBeNull();
  expect([...left.toArray(), ...right.toArray()]).toEqual([1, 2, 5]);
});

test("the tenth skipped update in a row throws, and one that is made starts the count again", () => {
  const { right, step } = setUp();
  const skip = () => step.take(right.sum().mul(Number.NaN), 1);
  for (let i = 0; i < 9; i++) expect(skip()).toBeNull();
  expect(step.take(right.sum(), 1)).not.toBeNull();
  for (let i = 0; i < 9; i++) expect(skip()).toBeNull();
  expect(skip).toThrow("10 updates in a row had to be skipped: the last had a loss of NaN");
});
