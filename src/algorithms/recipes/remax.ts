import { remax as remaxAdvantages } from "../advantages/remax.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";

const remaxOptions = recipeOptions("remax", {
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Reward-to-go minus the reward of the greedy reply to the prompt; clipped surrogate. One sample per prompt is enough.
 *
 * The greedy reply's reward is normalized, penalized for its length and its cut, and clipped as the samples' are. KL in the reward is
 * theirs alone, as in verl.
 *
 * Mean over tokens, as in verl. Source: ReMax, arXiv:2310.10505; the loss is verl's.
 */
export const remax = defineRecipe(remaxOptions, (options) => ({
  needs: ["greedyOf"],
  estimate: ({ rewards_BT, lossMask_BT, greedyRewards_B }) => {
    const { advantages_BT } = remaxAdvantages(rewards_BT, greedyRewards_B!, lossMask_BT);
    return { advantages_BT };
  },
  policy: clipPiece(options),
  reduction: options.reduction,
}));
