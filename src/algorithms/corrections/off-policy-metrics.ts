import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { maskedMean, maskedSum } from "../masked.ts";
import { expBounded, LOG_WEIGHT_BOUND } from "./importance-weights.ts";

interface OffPolicyInputs {
  readonly policyLogprobs_BT: Tensor;
  readonly samplerLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

/**
 * How far the policy is from the sampler: perplexities, KL(sampler || policy) by k1 and k3, and the chi-square divergence
 * E[w^2] - 1 of tokens and sequences. Means of sequences are over all rows. Names and formulas are verl's.
 */
export function offPolicyMetrics({
  policyLogprobs_BT,
  samplerLogprobs_BT,
  lossMask_BT,
}: OffPolicyInputs): CorrectionMetrics {
  const logRatio_BT = policyLogprobs_BT.sub(samplerLogprobs_BT);
  const policy_B = maskedMean(policyLogprobs_BT, lossMask_BT, 1).neg();
  const sampler_B = maskedMean(samplerLogprobs_BT, lossMask_BT, 1).neg();
  const gap_B = policy_B.sub(sampler_B);
  const logSum_B = maskedSum(logRatio_BT, lossMask_BT, 1).clamp(-LOG_WEIGHT_BOUND, LOG_WEIGHT_BOUND);
  return {
    training_ppl: policy_B.exp().mean(),
    training_log_ppl: policy_B.mean(),
    rollout_ppl: sampler_B.exp().mean(),
    rollout_log_ppl: sampler_B.mean(),
    kl: maskedMean(logRatio_BT.neg(), lossMask_BT),
    // Not bounded, as in verl: an infinity here is a finding.
    k3_kl: maskedMean(logRatio_BT.exp().sub(logRatio_BT).sub(1), lossMask_BT),
    log_ppl_diff: gap_B.mean(),
    log_ppl_abs_diff: gap_B.abs().mean(),
    log_ppl_diff_max: gap_B.max(),
    log_ppl_diff_min: gap_B.min(),
    ppl_ratio: gap_B.exp().mean(),
    chi2_token: maskedMean(expBounded(logRatio_BT).square(), lossMask_BT).sub(1),
    chi2_seq: logSum_B.mul(2).exp().mean().sub(1),
  };
}
