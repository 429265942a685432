import { expect, test } from "vitest";
import { type KlController, updateKlController } from "./controller.ts";

const adaptive: KlController = { type: "adaptive", coefficient: 0.2, targetKl: 6, horizon: 1000 };

test("a fixed controller stays as it is", () => {
  const fixed: KlController = { type: "fixed", coefficient: 0.1 };
  expect(updateKlController(fixed, 100, 64)).toEqual(fixed);
});

test.each([
  { kl: 6, coefficient: 0.2 },
  { kl: 6.6, coefficient: 0.2 * (1 + 0.1 * 0.1) },
  { kl: 60, coefficient: 0.2 * (1 + 0.2 * 0.1) },
  { kl: 0, coefficient: 0.2 * (1 - 0.2 * 0.1) },
])("after 100 of 1000 steps at KL $kl the coefficient is $coefficient", ({ kl, coefficient }) => {
  expect(updateKlController(adaptive, kl, 100)).toEqual({ ...adaptive, coefficient: expect.closeTo(coefficient, 12) });
});

test("the coefficient never becomes negative", () => {
  expect(updateKlController(adaptive, 0, 10_000).coefficient).toBe(0);
});

test("a KL that is not finite is refused", () => {
  expect(() => updateKlController(adaptive, Number.NaN, 1)).toThrow(/measured KL must be finite: got NaN/);
});
