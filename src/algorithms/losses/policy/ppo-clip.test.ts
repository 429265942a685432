import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { readMetrics } from "../loss-metrics.ts";
import { ppoClipLoss } from "./ppo-clip.ts";

const options = { clipLow: 0.2, clipHigh: 0.28, dualClip: 3 };

function run(ratio: number, advantage: number, dualClip: number | null = 3) {
  const inputs = exampleInputs({ ratios: [[ratio]], advantages: [[advantage]] });
  const { losses, gradient } = lossesAndGradient(inputs, ppoClipLoss(inputs, { ...options, dualClip }));
  return [losses[0], gradient[0]];
}

// The gradient of -r A with respect to the log-prob is -r A itself; in a clip region it is 0.
test.each([
  { region: "inside of the range", ratio: 1.1, advantage: 2, loss: -2.2, gradient: -2.2 },
  { region: "above it with A > 0", ratio: 1.5, advantage: 2, loss: -2.56, gradient: 0 },
  { region: "above it with A < 0", ratio: 1.5, advantage: -2, loss: 3, gradient: 3 },
  { region: "below it with A > 0", ratio: 0.5, advantage: 2, loss: -1, gradient: -1 },
  { region: "below it with A < 0", ratio: 0.5, advantage: -2, loss: 1.6, gradient: 0 },
  { region: "past the dual clip with A < 0", ratio: 4, advantage: -2, loss: 6, gradient: 0 },
])("$region the loss is $loss with gradient $gradient", ({ ratio, advantage, loss, gradient }) => {
  const [gotLoss, gotGradient] = run(ratio, advantage);
  expect(gotLoss).toBeCloseTo(loss, 12);
  expect(gotGradient).toBeCloseTo(gradient, 12);
});

test("without a dual clip the loss of a bad token grows with its ratio", () => {
  expect(run(4, -2, null)[0]).toBeCloseTo(8, 12);
});

test("importance weights multiply the loss after clipping", () => {
  const inputs = exampleInputs({ ratios: [[1.5, 1.1]], advantages: [[2, 2]], weights: [[0.5, 2]] });
  const { losses, gradient } = lossesAndGradient(inputs, ppoClipLoss(inputs, options));
  expect(losses[0]).toBeCloseTo(-1.28, 12);
  expect(gradient[0]).toBe(0);
  expect(gradient[1]).toBeCloseTo(-4.4, 12);
});

test("clip fractions and the KL to the anchor are means over loss tokens", () => {
  const inputs = exampleInputs({
    ratios: [[1.5, 1, 4, 9]],
    advantages: [[1, 1, -1, 1]],
    mask: [[1, 1, 1, 0]],
  });
  const metrics = readMetrics(ppoClipLoss(inputs, options).metrics);
  expect(metrics["policy/clip_fraction"]).toBeCloseTo(1 / 3, 12);
  expect(metrics["policy/dual_clip_fraction"]).toBeCloseTo(1 / 3, 12);
  expect(metrics["policy/anchor_kl"]).toBeCloseTo(-(Math.log(1.5) + Math.log(4)) / 3, 12);
});

test("a ratio past e^20 is kept there and has no gradient", () => {
  const [loss, gradient] = run(Math.exp(30), -1, null);
  expect(loss).toBeCloseTo(Math.exp(20), 0);
  expect(gradient).toBe(0);
});

test.each([
  [{ ...options, clipLow: -0.1 }, /clipLow must be in \[0, 1\]: got -0.1/],
  [{ ...options, clipHigh: Number.NaN }, /clipHigh must be at least 0: got NaN/],
  [{ ...options, dualClip: 0.5 }, /dualClip must be at least 1: got 0.5/],
])("options that cannot be are refused: %j", (wrong, message) => {
  const inputs = exampleInputs({ ratios: [[1]], advantages: [[1]] });
  expect(() => ppoClipLoss(inputs, wrong)).toThrow(message);
});
