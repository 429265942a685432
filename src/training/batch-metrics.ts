/** What the rows of a batch say about the loop that they came through: how far sampler and trainer are apart, and how old tokens are. */
import { maskedMean } from "../algorithms/masked.ts";
import type { CorrectionMetrics } from "../flow/batch-statistics.ts";
import type { TokenBatch } from "../flow/token-batch.ts";
import type { Tensor } from "../torch/tensor.ts";

/** How far the trainer's log-probs are from the sampler's: the health of the whole loop in one number. */
export function samplerGap(
  { anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT }: TokenBatch,
  onOldCache_BT: Tensor | null,
): CorrectionMetrics {
  if (anchorLogprobs_BT === undefined) return {};
  const gap_BT = anchorLogprobs_BT.sub(samplerLogprobs_BT).abs().where(lossMask_BT, 0);
  return {
    "train/sampler_gap": maskedMean(gap_BT, lossMask_BT),
    "train/sampler_gap_max": gap_BT.max(),
    ...(onOldCache_BT !== null && { "train/sampler_gap_old_cache": maskedMean(gap_BT, onOldCache_BT) }),
  };
}

/** How many training steps old the tokens of a batch are. */
export function stalenessOf({ versions, lossMask_BT }: TokenBatch): CorrectionMetrics {
  if (versions === undefined) return {};
  const age_BT = versions.versions_BT.neg().add(versions.current).to("float32").where(lossMask_BT, 0);
  return { "train/staleness": maskedMean(age_BT, lossMask_BT), "train/staleness_max": age_BT.max() };
}
