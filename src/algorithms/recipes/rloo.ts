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
 * Rewards against the mean of the other samples of their group; clipped surrogate.
 *
 * The paper puts KL into the reward: `klReward`. Source: RLOO, arXiv:2402.14740; the loss, a mean over tokens, is that of
 * verl and TRL.
 */
export const rloo = defineRecipe(rlooOptions, (options) => ({
  estimate: rowEstimate(({ rewards_B, groupOf }) => leaveOneOut(rewards_B, groupOf, { singleton: options.singleton })),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
