import { maxRl as maxRlAdvantages } from "../advantages/max-rl.ts";
import { contradiction } from "../recipe-runner/check-options.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const maxRlOptions = recipeOptions("maxrl", {
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Centered rewards divided by the mean reward of their group; clipped surrogate. Rewards must not be negative.
 *
 * Mean over tokens, as in verl's recipes without a critic. Source: MaxRL, arXiv:2602.02710.
 */
export const maxRl = defineRecipe(maxRlOptions, (options, path) => {
  const penalty = (["klReward", "overlong", "truncatedPenalty"] as const).find((key) => options[key] !== null);
  if (penalty !== undefined) {
    throw contradiction(
      `${path}.${penalty} makes rewards negative, and maxrl divides by their mean. Use klLoss, or masksTruncated.`,
    );
  }
  if (options.rewardNormalization?.isCentered) {
    throw contradiction(
      `${path}.rewardNormalization.isCentered makes rewards negative, and maxrl divides by their mean. Set it to false.`,
    );
  }
  return {
    estimate: rowEstimate(({ rewards_B, groupOf }) => maxRlAdvantages(rewards_B, groupOf)),
    policy: clipPiece(options),
    reduction: options.reduction,
  };
});
