import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { globalDenominators } from "../reduce.ts";
import { parseKlEstimator } from "./estimate.ts";
import { klLoss } from "./loss.ts";

test("the KL loss reduces the estimate and scales it, and its gradient is zero outside the mask", () => {
  const policyLogprobs_BT = tensor([[-1, -3, Number.NaN]], { dtype: "float64" });
  policyLogprobs_BT.requiresGrad = true;
  const lossMask_BT = tensor([[1, 1, 0]], { dtype: "bool" });
  const inputs = {
    policyLogprobs_BT,
    referenceLogprobs_BT: tensor([[-2, -2, 0]], { dtype: "float64" }),
    lossMask_BT,
    groupOf: [0],
  };
  const options = { coefficient: 0.1, estimator: parseKlEstimator("k2"), reduction: { type: "token-mean" } } as const;
  const loss = klLoss(inputs, options, globalDenominators(lossMask_BT, [0]));
  loss.backward();
  // Differences 1 and -1: 0.1 (0.5 + 0.5) / 2, gradients 0.1 d / 2.
  expect(loss.item()).toBeCloseTo(0.05, 12);
  expect(policyLogprobs_BT.grad!.toArray()).toEqual([expect.closeTo(0.05, 12), expect.closeTo(-0.05, 12), 0]);
});

test.each(["k1", "k2", "k3", "abs"])("the gradient of the %s loss is that of finite differences", (name) => {
  const logprobs = [
    [-1, -0.5, -3],
    [-2, -0.1, -0.7],
  ];
  const lossMask_BT = tensor(
    [
      [1, 1, 0],
      [1, 1, 1],
    ],
    { dtype: "bool" },
  );
  const lossAt = (policyLogprobs_BT: Tensor) =>
    klLoss(
      {
        policyLogprobs_BT,
        referenceLogprobs_BT: tensor(
          [
            [-1.3, -0.9, -1],
            [-0.4, -1, -0.2],
          ],
          { dtype: "float64" },
        ),
        lossMask_BT,
        groupOf: [0, 1],
      },
      { coefficient: 0.7, estimator: parseKlEstimator(name), reduction: { type: "seq-mean-token-mean" } },
      globalDenominators(lossMask_BT, [0, 1]),
    );
  const leaf = tensor(logprobs, { dtype: "float64" });
  leaf.requiresGrad = true;
  lossAt(leaf).backward();
  const step = 1e-6;
  const differences = logprobs.flatMap((row, b) =>
    row.map((_, t) => {
      const moved = (by: number) =>
        lossAt(
          tensor(
            logprobs.map((r, i) => r.map((x, j) => (i === b && j === t ? x + by : x))),
            { dtype: "float64" },
          ),
        );
      return (moved(step).item() - moved(-step).item()) / (2 * step);
    }),
  );
  expect(leaf.grad!.toArray()).toEqual(differences.map((value) => expect.closeTo(value, 7)));
});
