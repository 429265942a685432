import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { gspoLoss } from "./gspo.ts";

test("all tokens of a sequence share the geometric mean of their ratios", () => {
  // The mean of log 4 and log 1 is log 2; the masked token does not count.
  const inputs = exampleInputs({ ratios: [[4, 1, 50]], advantages: [[-1, -1, 0]], mask: [[1, 1, 0]] });
  const { losses, gradient } = lossesAndGradient(inputs, gspoLoss(inputs, { clipLow: 0.2, clipHigh: 0.2 }));
  expect(losses[0]).toBeCloseTo(2, 12);
  expect(losses[1]).toBeCloseTo(2, 12);
  expect(gradient[0]).toBeCloseTo(2, 12);
  expect(gradient[1]).toBeCloseTo(2, 12);
  expect(Math.abs(gradient[2]!)).toBe(0);
});

test("a sequence above the range with A > 0 is clipped whole", () => {
  const inputs = exampleInputs({
    ratios: [
      [4, 1],
      [1.1, 1.1],
    ],
    advantages: [
      [1, 1],
      [1, 1],
    ],
  });
  const { losses, gradient } = lossesAndGradient(inputs, gspoLoss(inputs, { clipLow: 0.2, clipHigh: 0.2 }));
  expect(losses[0]).toBeCloseTo(-1.2, 12);
  expect(gradient.slice(0, 2)).toEqual([0, 0]);
  expect(gradient[2]).toBeCloseTo(-1.1, 12);
});
