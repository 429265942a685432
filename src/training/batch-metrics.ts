/** What the rows of a batch say about the loop that they came through: how far sampler and trainer are apart, and how old tokens are. */
import { entropyBonus } from "../algorithms/losses/entropy-bonus.ts";
import { maskedMean } from "../algorithms/masked.ts";
import type { CorrectionMetrics, LossMetrics } from "../flow/batch-statistics.ts";
import type { ScoredBatch, ScoredRows, TokenBatch } from "../flow/token-batch.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { MeasuredPolicy } from "./measure-rows.ts";

/** How far the trainer's log-probs are from the sampler's: the health of the whole loop in one number. */
export function samplerGap(
  {
    anchorLogprobs_BT,
    samplerLogprobs_BT,
    lossMask_BT,
  }: Pick<TokenBatch, "anchorLogprobs_BT" | "samplerLogprobs_BT" | "lossMask_BT">,
  onOldCache_BT: Tensor | null,
): CorrectionMetrics {
  if (!anchorLogprobs_BT) return {};
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

/** Mean |return - value| of each row, for recipes with a critic. */
export function tdErrorsOf({ returns_BT, oldValues_BT, lossMask_BT }: ScoredBatch): {
  readonly tdErrors?: Float32Array;
} {
  if (returns_BT === null || oldValues_BT === null) return {};
  return tensorScope(() => ({
    tdErrors: maskedMean(returns_BT.sub(oldValues_BT).abs(), lossMask_BT, 1).toFloat32Array(),
  }));
}

/** Mean entropy at the loss tokens. Measured for recipes without an entropy bonus too, to see in every run whether the policy still explores. */
export function entropyOf({ entropies_BT }: MeasuredPolicy, { lossMask_BT }: ScoredRows): LossMetrics {
  const { metrics } = entropyBonus({ entropies_BT: entropies_BT.detach(), lossMask_BT }, 0);
  return { "policy/entropy": metrics["policy/entropy"]! };
}

/** The same values under longer names. */
export function prefixed(prefix: string, values: Readonly<Record<string, Tensor>>): Readonly<Record<string, Tensor>> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value]));
}
