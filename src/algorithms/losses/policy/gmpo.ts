import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange } from "../../expect-batch.ts";
import { maskedMean } from "../../masked.ts";
import type { SequenceLoss } from "../loss-output.ts";
import {
  anchorKl,
  LOG_RATIO_BOUND,
  nonfiniteMetric,
  type PolicyLossInputs,
  type PolicyTerms,
  policyTerms,
  tokenShare,
} from "./policy-loss.ts";

interface GmpoOptions {
  /** Log-ratios below -clipLow are clipped. The paper uses 0.4. */
  readonly clipLow: number;
  /** Log-ratios above clipHigh are clipped. The paper uses 0.4. */
  readonly clipHigh: number;
}

/** Smallest weight in the geometric mean, so that its log is finite. */
const SMALLEST_WEIGHT = 1e-10;

/**
 * -A exp(mean_t l_t) per sequence, A = mean_t A_t, l_t the log-ratio clipped to [-clipLow, clipHigh] on the side that
 * would overshoot: min(l, clip l) where A_t > 0, max(l, clip l) where A_t < 0.
 *
 * The geometric mean of the token ratios, which outliers move less than the arithmetic one. Importance weights enter by
 * their geometric mean. Geometric-Mean Policy Optimization (arXiv:2507.20673).
 */
export function gmpoLoss(inputs: PolicyLossInputs, { clipLow, clipHigh }: GmpoOptions): SequenceLoss {
  expectRange("clipLow", clipLow, 0);
  expectRange("clipHigh", clipHigh, 0);
  const terms = policyTerms(inputs);
  const { advantages_BT, live_BT } = terms;
  const logRatio_BT = terms.policyLogprobs_BT.sub(terms.anchorLogprobs_BT);
  const clipped_BT = logRatio_BT.clamp(-clipLow, clipHigh);
  const sign_BT = advantages_BT.sign();
  const used_BT = sign_BT.mul(sign_BT.mul(logRatio_BT).minimum(sign_BT.mul(clipped_BT)));
  const ratio_B = maskedMean(used_BT, live_BT, 1).clamp(null, LOG_RATIO_BOUND).exp();
  const loss_B = maskedMean(advantages_BT, live_BT, 1).neg().mul(ratio_B);
  const isClipped_BT = logRatio_BT.ne(clipped_BT);
  return {
    level: "sequence",
    loss_B: terms.weights_BT === null ? loss_B : loss_B.mul(sequenceWeights(terms.weights_BT, terms)),
    metrics: {
      "policy/clip_fraction_positive": tokenShare(terms, isClipped_BT.logicalAnd(advantages_BT.gt(0))),
      "policy/clip_fraction_negative": tokenShare(terms, isClipped_BT.logicalAnd(advantages_BT.lt(0))),
      ...anchorKl(terms, logRatio_BT),
      ...nonfiniteMetric(terms),
    },
  };
}

function sequenceWeights(weights_BT: Tensor, { live_BT }: PolicyTerms): Tensor {
  return maskedMean(weights_BT.add(SMALLEST_WEIGHT).log(), live_BT, 1).exp();
}
