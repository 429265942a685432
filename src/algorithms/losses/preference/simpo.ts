import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive, expectRange, expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import type { SequenceLoss } from "../loss-output.ts";
import { pairMetrics } from "./pair-metrics.ts";

interface SimpoInputs {
  /** Mean log-prob per token of each reply, from `sequenceLogprobs` with `isPerToken`. */
  readonly chosenLogprobs_B: Tensor;
  readonly rejectedLogprobs_B: Tensor;
}

interface SimpoOptions {
  readonly beta: number;
  /** Reward by which the chosen reply should lead. */
  readonly margin: number;
}

/**
 * -log sigmoid(beta (chosen - rejected) - margin), of mean log-probs per token: a reply's reward is beta times that mean, and no
 * reference model is needed.
 *
 * SimPO (arXiv:2405.14734), eq. 6; its gamma is `margin`. Pairs with NaN or infinite log-probs have loss 0 and gradient 0.
 */
export function simpoLoss(
  { chosenLogprobs_B, rejectedLogprobs_B }: SimpoInputs,
  { beta, margin }: SimpoOptions,
): SequenceLoss {
  expectPositive("beta", beta);
  expectRange("margin", margin, 0);
  expectRows({ chosenLogprobs_B, rejectedLogprobs_B });
  const raw_B = chosenLogprobs_B.sub(rejectedLogprobs_B);
  const live_B = raw_B.detach().isFinite();
  const loss_B = zeroOutside(raw_B, live_B).mul(beta).sub(margin).logSigmoid().neg();
  return {
    level: "sequence",
    loss_B: zeroOutside(loss_B, live_B),
    metrics: pairMetrics(live_B, chosenLogprobs_B.mul(beta), rejectedLogprobs_B.mul(beta)),
  };
}
