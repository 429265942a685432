/**
 * Rollouts that are one update: the policy that the loss sees is the one that measuring before would see, so it is its own anchor.
 *
 * That saves a forward pass over the batch, a fifth to a quarter of a step. How far the policy is from the sampler, otherwise known from
 * measuring, is then told of what the update sees.
 */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { CorrectionMetrics } from "../flow/batch-statistics.ts";
import { type ScoredBatch, selectRows } from "../flow/token-batch.ts";
import { noGrad } from "../torch/autograd.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { samplerGap } from "./batch-metrics.ts";
import type { TeachingParts } from "./teaching.ts";

/** Whether the policy is its own anchor in a step of this many updates. */
export function isOwnAnchor(
  recipe: Pick<Recipe, "needs" | "scoresAnchor">,
  teaching: Pick<TeachingParts, "form"> | null | undefined,
  numUpdates: number,
): boolean {
  const isRead = recipe.scoresAnchor || teaching?.form === "advantage";
  return recipe.needs.includes("anchorLogprobs_BT") && !isRead && numUpdates === 1;
}

/** Which tokens were sampled, before any were masked. Whoever has it frees it. */
export interface SampledTokens {
  readonly lossMask_BT: Tensor;
  /** See GridConstants. */
  readonly onOldCache_BT: Tensor | null;
}

/** What would have been found before the update, from what the policy said of all its rows. */
export function lateMetrics(
  recipe: Recipe,
  scored: ScoredBatch,
  rows: readonly number[],
  policyLogprobs_BT: Tensor,
  { lossMask_BT, onOldCache_BT }: SampledTokens,
): CorrectionMetrics {
  return noGrad(() =>
    tensorScope(() => {
      const { samplerLogprobs_BT } = scored;
      const seen = { anchorLogprobs_BT: policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT };
      return keep({
        ...recipe.correctionMetrics({ rows: selectRows(scored, rows), policyLogprobs_BT }),
        ...samplerGap(seen, onOldCache_BT),
      });
    }),
  );
}
