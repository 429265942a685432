/** What a loss returns, and how that becomes a part's share of the batch loss. */

import type { Denominators, LossMetrics } from "../../flow/batch-statistics.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type LossRows, type Reduction, reduceLoss, reduceSequenceLoss } from "../reduce.ts";

/** A loss with a value per token. It is 0, with gradient 0, outside the loss mask. */
export interface TokenLoss {
  readonly level: "token";
  readonly loss_BT: Tensor;
  readonly metrics: LossMetrics;
}

/** A loss that has no value per token: its batch loss is the mean over trajectories, whatever the reduction. */
export interface SequenceLoss {
  readonly level: "sequence";
  readonly loss_B: Tensor;
  readonly metrics: LossMetrics;
}

export type LossOutput = TokenLoss | SequenceLoss;

/** This part's share of the batch loss. */
export function reduceOutput(
  output: LossOutput,
  rows: LossRows,
  reduction: Reduction,
  denominators: Denominators,
): Tensor {
  switch (output.level) {
    case "token":
      return reduceLoss(output.loss_BT, rows, reduction, denominators);
    case "sequence":
      return reduceSequenceLoss(output.loss_B, rows, denominators);
  }
}
