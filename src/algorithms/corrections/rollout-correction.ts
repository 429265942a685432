/**
 * Correction for tokens that were sampled by other weights: importance weights and a smaller loss mask.
 *
 * In: log-probs of sampler and policy. Out: weights for the loss, the mask without rejected tokens, and metrics under
 * `rollout_corr/`. Nothing here has a gradient, and nothing is read back from the device.
 *
 * Run it once on a whole batch, with the anchor's log-probs as `policyLogprobs_BT`, before advantages and denominators
 * are computed with the new mask. In bypass mode, where the anchor is the sampler, it runs inside the loss: see
 * losses/policy/bypass.ts.
 */

import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch } from "../expect-batch.ts";
import { maskedMean, zeroOutside } from "../masked.ts";
import type { RolloutCorrection } from "./correction-options.ts";
import { importanceWeights } from "./importance-weights.ts";
import { offPolicyMetrics } from "./off-policy-metrics.ts";
import { rejectTokens } from "./rejection.ts";

interface RolloutCorrectionInputs {
  /** Log-probs of the weights to correct towards: the recomputed anchor, or the policy itself in bypass mode. */
  readonly policyLogprobs_BT: Tensor;
  /** Log-probs of the distribution that the tokens were sampled from. */
  readonly samplerLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /**
   * The mean weight of the whole batch, for self-normalization when these rows are only part of it. Default: the mean
   * over these rows.
   */
  readonly meanWeight?: Tensor;
}

export interface CorrectedRollout {
  /** Importance weights; null if none were asked for. */
  readonly weights_BT: Tensor | null;
  /** The loss mask without rejected tokens. It may be empty, and the loss is then 0. */
  readonly lossMask_BT: Tensor;
  readonly metrics: CorrectionMetrics;
}

/**
 * Weighs and rejects tokens. `correction` comes from `resolveCorrection`.
 *
 * Tokens with NaN or infinite log-probs are rejected, whatever the criteria, are left out of every statistic, and are
 * counted in `rollout_corr/nonfinite_fraction`. Over an empty mask every metric is 0, or 1 for perplexities.
 */
export function correctRollout(inputs: RolloutCorrectionInputs, correction: RolloutCorrection): CorrectedRollout {
  const { policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT } = inputs;
  expectBatch(lossMask_BT, { policyLogprobs_BT, samplerLogprobs_BT });
  return noGrad(() => tensorScope(() => correct(inputs, correction)));
}

/** The metrics of tokens that nothing corrects: how far the policy is from the sampler. */
export function uncorrectedMetrics(inputs: RolloutCorrectionInputs): CorrectionMetrics {
  return correctRollout(inputs, { importance: null, criteria: [] }).metrics;
}

function correct(inputs: RolloutCorrectionInputs, { importance, criteria }: RolloutCorrection): CorrectedRollout {
  const isFinite_BT = inputs.policyLogprobs_BT.sub(inputs.samplerLogprobs_BT).isFinite();
  const mask_BT = inputs.lossMask_BT.logicalAnd(isFinite_BT);
  const policyLogprobs_BT = zeroOutside(inputs.policyLogprobs_BT, mask_BT);
  const samplerLogprobs_BT = zeroOutside(inputs.samplerLogprobs_BT, mask_BT);
  const logRatio_BT = policyLogprobs_BT.sub(samplerLogprobs_BT);
  const weighted = importance && importanceWeights(logRatio_BT, mask_BT, importance, inputs.meanWeight);
  const rejection = criteria.length === 0 ? null : rejectTokens(logRatio_BT, mask_BT, criteria);
  const isLost_BT = isFinite_BT.logicalNot().to(logRatio_BT.dtype);
  const metrics = {
    ...weighted?.metrics,
    ...rejection?.metrics,
    ...offPolicyMetrics({ policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT: mask_BT }),
    nonfinite_fraction: maskedMean(isLost_BT, inputs.lossMask_BT),
  };
  return {
    weights_BT: weighted?.weights_BT ?? null,
    lossMask_BT: rejection?.lossMask_BT ?? mask_BT,
    metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [`rollout_corr/${name}`, value])),
  };
}
