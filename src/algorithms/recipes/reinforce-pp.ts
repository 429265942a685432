import { reinforcePlusPlus } from "../advantages/reinforce-plus-plus.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { gammaOption, ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";

const reinforcePpOptions = recipeOptions("reinforce-pp", {
  ...gammaOption,
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Returns per token, whitened over the batch; clipped surrogate. Needs no groups.
 *
 * Returns run along the trajectory, through all rows of a forked one. Mean over tokens, as in verl. The paper puts KL into
 * the reward: `klReward`. Source: REINFORCE++, arXiv:2501.03262.
 */
export const reinforcePp = defineRecipe(reinforcePpOptions, (options) => ({
  estimate: ({ rewards_BT, lossMask_BT }) => {
    const { advantages_BT } = reinforcePlusPlus(rewards_BT, lossMask_BT, { gamma: options.gamma });
    return { advantages_BT };
  },
  policy: clipPiece(options),
  reduction: options.reduction,
}));
