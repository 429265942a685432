import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";
import { expectPerToken } from "../expect-tokens.ts";
import type { TokenLoss } from "../loss-output.ts";
import { type ClipOptions, clippedSurrogate } from "./clipped-surrogate.ts";
import { anchorKl, logRatio, type PolicyLossInputs, policyTerms, tokenLoss, tokenShare } from "./policy-loss.ts";
import { selectLargest, shareToCount, tokenCovariance } from "./token-covariance.ts";

interface ClipCovInputs extends PolicyLossInputs {
  /**
   * Uniform numbers in [0, 1) from a seeded generator, which choose among the tokens in the band. Default: the largest
   * covariances are chosen.
   */
  readonly noise_BT?: Tensor;
  /** Tokens to drop, chosen earlier by `clipCovSelection`. Default: chosen among the tokens of this call. */
  readonly selected_BT?: Tensor;
}

interface ClipCovOptions extends ClipOptions {
  /** The share of loss tokens to drop. verl uses 2e-4. At least one token is dropped where one is in the band. */
  readonly share: number;
  /** Tokens whose covariance is above this may be dropped. verl uses 1. */
  readonly covarianceLow: number;
  /** Tokens whose covariance is below this may be dropped. verl uses 5. */
  readonly covarianceHigh: number;
}

/**
 * PPO-clip, with no loss at a few tokens whose covariance of advantage and log-prob lies in a band.
 *
 * Those few tokens are what make the entropy collapse. Clip-Cov, Entropy Mechanism (arXiv:2505.22617).
 */
export function clipCovLoss(inputs: ClipCovInputs, options: ClipCovOptions): TokenLoss {
  const terms = policyTerms(inputs);
  const logRatio_BT = logRatio(terms);
  const { loss_BT } = clippedSurrogate(logRatio_BT.exp(), terms.advantages_BT, options);
  const selected_BT = inputs.selected_BT ?? clipCovSelection(inputs, options);
  expectPerToken("selected_BT", selected_BT, "bool", terms.lossMask_BT);
  return tokenLoss(terms, loss_BT.maskedFill(selected_BT, 0), {
    "policy/clip_fraction": tokenShare(terms, selected_BT),
    ...anchorKl(terms, logRatio_BT),
  });
}

/** The tokens that Clip-Cov drops: in the band, not already clipped by PPO, drawn by `noise_BT`. */
export function clipCovSelection(inputs: ClipCovInputs, options: ClipCovOptions): Tensor {
  expectRange("share", options.share, Number.MIN_VALUE, 1);
  const terms = policyTerms(inputs, inputs.noise_BT && { noise_BT: inputs.noise_BT });
  const { isClipped_BT } = clippedSurrogate(logRatio(terms).detach().exp(), terms.advantages_BT, options);
  const covariance_BT = tokenCovariance(terms.policyLogprobs_BT, terms.advantages_BT, terms.live_BT);
  const eligible_BT = covariance_BT
    .gt(options.covarianceLow)
    .logicalAnd(covariance_BT.lt(options.covarianceHigh))
    .logicalAnd(terms.live_BT)
    .logicalAnd(isClipped_BT.logicalNot());
  const count = shareToCount(terms.lossMask_BT, options.share);
  return selectLargest(inputs.noise_BT ?? covariance_BT, eligible_BT, count);
}
