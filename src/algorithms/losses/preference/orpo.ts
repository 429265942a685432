import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive, expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver } from "../loss-metrics.ts";
import type { SequenceLoss } from "../loss-output.ts";
import { pairMetrics } from "./pair-metrics.ts";

interface OrpoInputs {
  /** Mean log-prob per token of each reply, from `sequenceLogprobs` with `isPerToken`. */
  readonly chosenLogprobs_B: Tensor;
  readonly rejectedLogprobs_B: Tensor;
}

interface OrpoOptions {
  /** Weight of the odds ratio beside the likelihood of the chosen replies; lambda in the paper. */
  readonly beta: number;
}

/**
 * -beta log sigmoid(log odds(chosen) - log odds(rejected)), odds(p) = p / (1 - p), p = exp(mean log-prob per token).
 *
 * The preference term of ORPO (arXiv:2403.07691), eq. 7; the whole loss adds `crossEntropyLoss` of the chosen replies. Pairs with
 * NaN or infinite odds, as of a reply that is certain, have loss 0 and gradient 0.
 */
export function orpoLoss({ chosenLogprobs_B, rejectedLogprobs_B }: OrpoInputs, { beta }: OrpoOptions): SequenceLoss {
  expectPositive("beta", beta);
  expectRows({ chosenLogprobs_B, rejectedLogprobs_B });
  const live_B = logOdds(chosenLogprobs_B.detach()).sub(logOdds(rejectedLogprobs_B.detach())).isFinite();
  // Where a pair is left out, log-probs that have odds take its place: the gradient of infinite odds is NaN even times 0.
  const safe = (logprobs_B: Tensor) => logOdds(logprobs_B.where(live_B, -1));
  const ratio_B = safe(chosenLogprobs_B).sub(safe(rejectedLogprobs_B));
  return {
    level: "sequence",
    loss_B: zeroOutside(ratio_B.logSigmoid().mul(-beta), live_B),
    metrics: {
      ...pairMetrics(live_B, chosenLogprobs_B.mul(beta), rejectedLogprobs_B.mul(beta)),
      "preference/log_odds": meanOver(live_B, ratio_B),
    },
  };
}

/** log p - log(1 - p) of p = exp(logprob). */
function logOdds(logprobs_B: Tensor): Tensor {
  return logprobs_B.sub(logprobs_B.expm1().neg().log());
}
