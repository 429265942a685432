/** KL as a term of the loss. */

import type { Denominators } from "../../flow/batch-statistics.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { type LossRows, type Reduction, reduceLoss } from "../reduce.ts";
import { type KlEstimator, klEstimate } from "./estimate.ts";

interface KlLossInputs extends LossRows {
  readonly policyLogprobs_BT: Tensor;
  readonly referenceLogprobs_BT: Tensor;
}

export interface KlLossOptions {
  /** Beta: the cost of one unit of KL. */
  readonly coefficient: number;
  readonly estimator: KlEstimator;
  readonly reduction: Reduction;
}

/**
 * coefficient reduce(KL(policy || reference)), this part's share of the batch.
 *
 * Source: GRPO, arXiv:2402.03300, eq. 3 and 4 (with k3).
 */
export function klLoss(
  { policyLogprobs_BT, referenceLogprobs_BT, ...rows }: KlLossInputs,
  { coefficient, estimator, reduction }: KlLossOptions,
  denominators: Denominators,
): Tensor {
  expectBatch(rows.lossMask_BT, { policyLogprobs_BT, referenceLogprobs_BT });
  expectRange("coefficient", coefficient, 0);
  const kl_BT = klEstimate(policyLogprobs_BT, referenceLogprobs_BT, estimator);
  return reduceLoss(kl_BT, rows, reduction, denominators).mul(coefficient);
}
