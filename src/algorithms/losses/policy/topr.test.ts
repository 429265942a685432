import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { tensor } from "../../../torch/create.ts";
import { toprLoss } from "./topr.ts";

const options = { weightPositive: 1, weightNegative: 0.5, level: "token" } as const;
const rewards_B = tensor([1, 0], { dtype: "float64" });
const ratios = [
  [3, 0.2],
  [3, 0.2],
];
const advantages = [
  [2, 2],
  [-2, -2],
];

test("good samples are imitated, bad ones are weighted by a ratio of at most 1", () => {
  const inputs = exampleInputs({ ratios, advantages });
  const { gradient } = lossesAndGradient(inputs, toprLoss({ ...inputs, rewards_B }, options));
  expect(gradient[0]).toBeCloseTo(-2, 12);
  expect(gradient[1]).toBeCloseTo(-2, 12);
  expect(gradient[2]).toBeCloseTo(0.5 * 1 * 2, 12);
  expect(gradient[3]).toBeCloseTo(0.5 * 0.2 * 2, 12);
});

test("at the level of sequences the ratio is the product", () => {
  const inputs = exampleInputs({ ratios, advantages });
  const { gradient } = lossesAndGradient(inputs, toprLoss({ ...inputs, rewards_B }, { ...options, level: "sequence" }));
  expect(gradient[2]).toBeCloseTo(0.5 * 0.6 * 2, 12);
  expect(gradient[3]).toBeCloseTo(0.5 * 0.6 * 2, 12);
});

test("one reward per row is needed", () => {
  const inputs = exampleInputs({ ratios: [[1]], advantages: [[1]] });
  expect(() => toprLoss({ ...inputs, rewards_B }, options)).toThrow(/rewards_B has shape \[2\]/);
});
