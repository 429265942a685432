import { optimalBaseline } from "../advantages/opo.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption, singletonOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const opoOptions = recipeOptions("opo", {
  ...singletonOption,
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Rewards minus the length-weighted mean of their group; clipped surrogate.
 *
 * Mean over tokens: the baseline is optimal for gradients that grow with length. The paper trains exactly on-policy,
 * with one update per rollout. Source: OPO, arXiv:2505.23585.
 */
export const opo = defineRecipe(opoOptions, (options) => ({
  estimate: rowEstimate(({ rewards_B, lossMask_BT, groupOf }) =>
    optimalBaseline(rewards_B, lossMask_BT, groupOf, { singleton: options.singleton }),
  ),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
