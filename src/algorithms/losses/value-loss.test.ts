import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { readMetrics } from "./loss-metrics.ts";
import { valueLoss } from "./value-loss.ts";

function run(valueClip: number | null) {
  const row = (values: number[]) => tensor([values], { dtype: "float64" });
  // Old values are 1. Inside of the clip; past it, away from the return; past it, towards the return.
  const values_BT = row([1.1, 3, 3]);
  values_BT.requiresGrad = true;
  const output = valueLoss(
    { values_BT, oldValues_BT: row([1, 1, 1]), returns_BT: row([2, 0, 4]), lossMask_BT: row([1, 1, 1]).ne(0) },
    { valueClip },
  );
  const [gradient] = gradients([output.loss_BT.sum()], [values_BT]);
  return { losses: output.loss_BT.toArray(), gradient: gradient!.toArray(), metrics: readMetrics(output.metrics) };
}

test("without a clip the loss is half the squared error", () => {
  const { losses, gradient } = run(null);
  expect(losses[0]).toBeCloseTo(0.405, 12);
  expect(losses.slice(1)).toEqual([4.5, 0.5]);
  expect(gradient[2]).toBeCloseTo(-1, 12);
});

test("a prediction that moved too far towards the return has no gradient", () => {
  const { losses, gradient, metrics } = run(0.2);
  expect(losses[0]).toBeCloseTo(0.405, 12);
  expect(losses[1]).toBeCloseTo(4.5, 12);
  expect(losses[2]).toBeCloseTo(0.5 * 2.8 ** 2, 12);
  expect(gradient[0]).toBeCloseTo(-0.9, 12);
  expect(gradient[1]).toBeCloseTo(3, 12);
  expect(gradient[2]).toBe(0);
  expect(metrics["value/clip_fraction"]).toBeCloseTo(1 / 3, 12);
});
