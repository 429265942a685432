import { leaveOneOut } from "../advantages/leave-one-out.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption, singletonOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const rlooOptions = recipeOptions("rloo", {
  ...singletonOption,
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Rewards minus the mean of the other samples in their group; clipped surrogate.
 *
 * The paper puts KL into the reward: `klReward`. Source: RLOO, arXiv:2402.14740; verl and TRL use the same loss, a mean
 * over tokens.
 */
export const rloo = defineRecipe(rlooOptions, (options) => ({
  estimate: rowEstimate(({ rewards_B, groupOf }) => leaveOneOut(rewards_B, groupOf, { singleton: options.singleton })),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
