import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { crossEntropyLoss } from "./cross-entropy.ts";
import { readMetrics } from "./loss-metrics.ts";

const policyLogprobs_BT = tensor([[-1, -2, -3]], { dtype: "float64" });
const lossMask_BT = tensor([[1, 1, 0]]).ne(0);

test("the loss is minus the log-prob of the target, 0 outside the mask", () => {
  const { loss_BT, metrics } = crossEntropyLoss({ policyLogprobs_BT, lossMask_BT });
  expect(loss_BT.toArray().map((value) => value + 0)).toEqual([1, 2, 0]);
  expect(readMetrics(metrics)["supervised/nll"]).toBe(1.5);
});

test("weights multiply the loss and not the reported value", () => {
  const weights_BT = tensor([[0.5, 3, 1]], { dtype: "float64" });
  const { loss_BT, metrics } = crossEntropyLoss({ policyLogprobs_BT, lossMask_BT, weights_BT });
  expect(loss_BT.toArray().map((value) => value + 0)).toEqual([0.5, 6, 0]);
  expect(readMetrics(metrics)["supervised/nll"]).toBe(1.5);
});
