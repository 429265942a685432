import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { zeroOutside } from "../masked.ts";
import { LOG_WEIGHT_BOUND } from "./importance-weights.ts";

interface OutlierMaskInputs {
  readonly policyLogprobs_BT: Tensor;
  readonly samplerLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

export interface OutlierMaskOptions {
  /** ratio: policy / sampler. difference: policy - sampler, of probabilities, in [-1, 1]. */
  readonly of: "ratio" | "difference";
  readonly low: number;
  readonly high: number;
  /** What is dropped with an outlier: only itself, or its whole row (a veto). */
  readonly scope: "token" | "sequence";
}

/**
 * The loss mask without tokens whose probabilities under policy and sampler differ too much.
 *
 * A guard against broken samples, with wide bounds: ratios in [1e-4, 100] in SkyRL, a veto below 1e-4 in slime, and
 * differences in [-0.2, 0.2] in ROLL. Tokens with NaN or infinite log-probs are outliers.
 */
export function outlierMask(inputs: OutlierMaskInputs, { of, low, high, scope }: OutlierMaskOptions): Tensor {
  const { policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT } = inputs;
  expectBatch(lossMask_BT, { policyLogprobs_BT, samplerLogprobs_BT });
  if (low > high) {
    throw new RerollError("INVALID_ARGUMENT", `low must be at most high: got ${low} and ${high}.`, { low, high });
  }
  if (of === "ratio") expectRange("low", low, 0);
  const isFinite_BT = policyLogprobs_BT.sub(samplerLogprobs_BT).isFinite();
  const policy_BT = zeroOutside(policyLogprobs_BT.detach(), isFinite_BT);
  const sampler_BT = zeroOutside(samplerLogprobs_BT.detach(), isFinite_BT);
  const distance_BT =
    of === "ratio"
      ? policy_BT.sub(sampler_BT).clamp(-LOG_WEIGHT_BOUND, LOG_WEIGHT_BOUND).exp()
      : policy_BT.exp().sub(sampler_BT.exp());
  const isGood_BT = distance_BT.ge(low).logicalAnd(distance_BT.le(high)).logicalAnd(isFinite_BT);
  if (scope === "token") return lossMask_BT.logicalAnd(isGood_BT);
  const hasOutlier_B1 = lossMask_BT.logicalAnd(isGood_BT.logicalNot()).sum(1, true).gt(0);
  return lossMask_BT.logicalAnd(hasOutlier_B1.logicalNot());
}
