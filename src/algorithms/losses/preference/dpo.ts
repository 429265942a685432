import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive, expectRange, expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import type { SequenceLoss } from "../loss-output.ts";
import { pairMetrics } from "./pair-metrics.ts";

/** Log-probabilities of whole replies, from `sequenceLogprobs`; row b of both sides answers the same prompt. */
interface DpoInputs {
  readonly chosen: ReplyLogprobs;
  readonly rejected: ReplyLogprobs;
}

interface ReplyLogprobs {
  readonly policyLogprobs_B: Tensor;
  readonly referenceLogprobs_B: Tensor;
}

/** In every form, beta is how strongly the policy is held to the reference. */
export type DpoOptions =
  | {
      readonly type: "sigmoid";
      readonly beta: number;
      /** The probability that a label is wrong, in [0, 0.5). Default 0. */
      readonly labelSmoothing?: number;
    }
  | { readonly type: "ipo"; readonly beta: number }
  | { readonly type: "hinge"; readonly beta: number };

/**
 * The loss of one pair, h = log(policy / reference)(chosen) - log(policy / reference)(rejected):
 *
 * | type | loss | source |
 * |---|---|---|
 * | sigmoid | -(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h), e = labelSmoothing | DPO (arXiv:2305.18290), eq. 7; cDPO |
 * | ipo | (h - 1 / (2 beta))^2; give it log-probs per token | IPO (arXiv:2310.12036) |
 * | hinge | max(0, 1 - beta h) | SLiC (arXiv:2305.10425) |
 *
 * With log-probs per token (`sequenceLogprobs` with `isPerToken`), sigmoid is length-normalized DPO: long replies weigh no more
 * than short ones (Meng et al. 2024, arXiv:2405.14734, section 4). Its beta is larger by about the length of a reply.
 *
 * Reduce with the loss mask of the chosen replies: the batch loss is the mean over pairs. Pairs with NaN or infinite
 * log-probs have loss 0 and gradient 0, and are counted in `preference/nonfinite_fraction`.
 */
export function dpoLoss({ chosen, rejected }: DpoInputs, options: DpoOptions): SequenceLoss {
  expectPositive("beta", options.beta);
  expectRows({
    "chosen.policyLogprobs_B": chosen.policyLogprobs_B,
    "chosen.referenceLogprobs_B": chosen.referenceLogprobs_B,
    "rejected.policyLogprobs_B": rejected.policyLogprobs_B,
    "rejected.referenceLogprobs_B": rejected.referenceLogprobs_B,
  });
  const chosenGain_B = chosen.policyLogprobs_B.sub(chosen.referenceLogprobs_B.detach());
  const rejectedGain_B = rejected.policyLogprobs_B.sub(rejected.referenceLogprobs_B.detach());
  const raw_B = chosenGain_B.sub(rejectedGain_B);
  const live_B = raw_B.detach().isFinite();
  const margin_B = zeroOutside(raw_B, live_B);
  return {
    level: "sequence",
    loss_B: zeroOutside(pairLoss(margin_B, options), live_B),
    metrics: pairMetrics(live_B, chosenGain_B.mul(options.beta), rejectedGain_B.mul(options.beta)),
  };
}

function pairLoss(margin_B: Tensor, options: DpoOptions): Tensor {
  switch (options.type) {
    case "sigmoid": {
      const { labelSmoothing = 0 } = options;
      expectRange("labelSmoothing", labelSmoothing, 0, 0.5);
      const scaled_B = margin_B.mul(options.beta);
      const asLabeled_B = scaled_B.logSigmoid().mul(labelSmoothing - 1);
      return asLabeled_B.sub(scaled_B.neg().logSigmoid().mul(labelSmoothing));
    }
    case "ipo":
      return margin_B.sub(1 / (2 * options.beta)).square();
    case "hinge":
      return margin_B.mul(-options.beta).add(1).relu();
  }
}
