import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { entropyBonus } from "./entropy-bonus.ts";
import { readMetrics } from "./loss-metrics.ts";

test("the loss is minus the coefficient times the entropy of loss tokens", () => {
  const entropies_BT = tensor([[2, 1, Number.NaN]], { dtype: "float64" });
  const { loss_BT, metrics } = entropyBonus({ entropies_BT, lossMask_BT: tensor([[1, 1, 0]]).ne(0) }, 0.01);
  expect(loss_BT.toArray().map((value) => value + 0)).toEqual([-0.02, -0.01, 0]);
  expect(readMetrics(metrics)["policy/entropy"]).toBe(1.5);
});
