import { expect, test } from "vitest";
import { type EntropyController, entropyCoefficient, updateEntropyController } from "./entropy-controller.ts";

const adaptive: EntropyController = {
  type: "adaptive",
  coefficient: 0.01,
  target: 0.5,
  stepSize: 0.005,
  smallest: 0,
  largest: 0.02,
  entropy: null,
};

test("a fixed coefficient stays", () => {
  const fixed: EntropyController = { type: "fixed", coefficient: 0.001 };
  expect(entropyCoefficient(updateEntropyController(fixed, 3))).toBe(0.001);
});

test("the coefficient rises while the entropy is below its target, up to the largest", () => {
  const first = updateEntropyController(adaptive, 0.1);
  const second = updateEntropyController(first, 0.1);
  const third = updateEntropyController(second, 0.1);
  expect(entropyCoefficient(adaptive)).toBe(0.01);
  expect(entropyCoefficient(first)).toBeCloseTo(0.015, 12);
  expect([second, third].map(entropyCoefficient)).toEqual([0.02, 0.02]);
});

test("above the target the coefficient falls and the bonus is off", () => {
  const next = updateEntropyController(adaptive, 0.9);
  expect(next.coefficient).toBeCloseTo(0.005, 12);
  expect(entropyCoefficient(next)).toBe(0);
});

test("an entropy that is not a number is refused", () => {
  expect(() => updateEntropyController(adaptive, Number.NaN)).toThrow(/must be finite: got NaN/);
});
