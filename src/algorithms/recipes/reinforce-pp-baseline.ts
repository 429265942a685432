import { reinforcePlusPlusBaseline } from "../advantages/reinforce-plus-plus.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption, singletonOption } from "../recipe-runner/recipe-options.ts";

const reinforcePpBaselineOptions = recipeOptions("reinforce-pp-baseline", {
  ...singletonOption,
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Rewards minus the mean of their group, whitened over the tokens of the batch; clipped surrogate.
 *
 * Mean over tokens, as in verl. The paper adds `klLoss: { estimator: "k2" }`. Source: REINFORCE++-baseline, arXiv:2501.03262.
 */
export const reinforcePpBaseline = defineRecipe(reinforcePpBaselineOptions, (options) => ({
  estimate: ({ rewards_B, lossMask_BT, groupOf }) => ({
    advantages_BT: reinforcePlusPlusBaseline(rewards_B, lossMask_BT, groupOf, { singleton: options.singleton }),
  }),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
