import { expect, test } from "vitest";
import { exampleInputs, lossesAndGradient } from "../../../testing/example-inputs.ts";
import { tensor } from "../../../torch/create.ts";
import { runsOf, segmentClipLoss } from "./segment-clip.ts";

const clip = { clipLow: 0.2, clipHigh: 0.2 };

test("runs of the mask are numbered from 1 in every row", () => {
  const runs = runsOf(
    tensor([
      [1, 1, 0, 1],
      [0, 1, 0, 0],
    ]).ne(0),
  );
  expect(runs.toArray()).toEqual([1, 1, 1, 2, 0, 1, 1, 1]);
});

test("each turn has its own ratio, and the gradient flows through its mean", () => {
  // Turn 1: exp(mean(log 4, log 1)) = 2. Turn 2: 1.1.
  const inputs = exampleInputs({ ratios: [[4, 1, 7, 1.1]], advantages: [[-1, -3, 0, 2]], mask: [[1, 1, 0, 1]] });
  const { losses, gradient } = lossesAndGradient(inputs, segmentClipLoss(inputs, clip));
  expect(losses[0]).toBeCloseTo(2, 12);
  expect(losses[1]).toBeCloseTo(6, 12);
  expect(losses[3]).toBeCloseTo(-2.2, 12);
  // Both losses of turn 1 move with both of its log-probs: (1 + 3) * 2 / 2.
  expect(gradient[0]).toBeCloseTo(4, 12);
  expect(gradient[1]).toBeCloseTo(4, 12);
  expect(gradient[3]).toBeCloseTo(-2.2, 12);
});

test("segments that are given replace the runs of the mask", () => {
  const inputs = exampleInputs({ ratios: [[4, 1, 1]], advantages: [[-1, -1, -1]], mask: [[1, 0, 1]] });
  const segments_BT = tensor([[0, 0, 0]], { dtype: "int64" });
  const { losses } = lossesAndGradient(inputs, segmentClipLoss({ ...inputs, segments_BT }, clip));
  expect(losses[0]).toBeCloseTo(2, 12);
  expect(losses[2]).toBeCloseTo(2, 12);
});

test("segments of another shape are refused", () => {
  const inputs = exampleInputs({ ratios: [[1, 1]], advantages: [[1, 1]] });
  const segments_BT = tensor([[0]], { dtype: "int64" });
  expect(() => segmentClipLoss({ ...inputs, segments_BT }, clip)).toThrow(/segments_BT must be int64 \[1, 2\]/);
});
