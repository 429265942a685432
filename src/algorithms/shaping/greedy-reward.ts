/** What a greedy trajectory is worth as a baseline: its rewards, shaped as those of the samples that are compared with it. */
import type { GreedyOutcome } from "../../flow/token-sample.ts";
import type { CommonOptions } from "../recipe-runner/recipe-options.ts";
import { softOverlongPenalty } from "./overlong.ts";

type Shaping = Pick<CommonOptions, "rewardNormalization" | "overlong" | "truncatedPenalty" | "rewardClip">;

/**
 * sum_k clip(r_k / deviation + [k is last] (-mean / deviation + length penalty - truncatedPenalty))
 *
 * The order is that of score-batch.ts: each reward to the scale of its domain, penalties on the last one, then the clip of each.
 */
export function greedyReward(
  { rewards, numTokens, isTruncated }: GreedyOutcome,
  { mean, deviation }: { readonly mean: number; readonly deviation: number },
  { rewardNormalization, overlong, truncatedPenalty, rewardClip }: Shaping,
): number {
  const shift = rewardNormalization?.isCentered ? -mean / deviation : 0;
  const length = overlong === null ? 0 : softOverlongPenalty(numTokens, overlong);
  const cut = isTruncated ? -(truncatedPenalty ?? 0) : 0;
  const bound = rewardClip ?? Number.POSITIVE_INFINITY;
  return rewards
    .map((reward, i) => reward / deviation + (i === rewards.length - 1 ? shift + length + cut : 0))
    .reduce((sum, reward) => sum + Math.min(Math.max(reward, -bound), bound), 0);
}
