import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { readMetrics } from "../loss-metrics.ts";
import { truncatedIsLoss } from "./truncated-is.ts";

test("every token keeps a gradient, with a weight of at most the bound", () => {
  const inputs = exampleInputs({ ratios: [[0.5, 3, 0.1]], advantages: [[2, 2, -2]] });
  const output = truncatedIsLoss(inputs, { ratioLow: 0.2, ratioHigh: 1 });
  const { gradient } = lossesAndGradient(inputs, output);
  expect(gradient[0]).toBeCloseTo(-1, 12);
  expect(gradient[1]).toBeCloseTo(-2, 12);
  expect(gradient[2]).toBeCloseTo(0.4, 12);
  expect(readMetrics(output.metrics)["policy/clip_fraction"]).toBeCloseTo(2 / 3, 12);
});

test("bounds in the wrong order are refused", () => {
  const inputs = exampleInputs({ ratios: [[1]], advantages: [[1]] });
  expect(() => truncatedIsLoss(inputs, { ratioLow: 2, ratioHigh: 1 })).toThrow(/ratioLow must be in \[0, 1\]: got 2/);
});
