import { z } from "zod";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { ppoClipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const dapoOptions = recipeOptions("dapo", {
  ...scaleOption("group-std"),
  ...ppoClipOptions(0.2, 0.28, 10),
  dropsFlatGroups: z
    .boolean()
    .default(true)
    .describe(
      "Leave groups whose rewards are all equal out of the loss and its denominators. Dynamic sampling (rollout.filter) replaces them before that.",
    ),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * GRPO with clip-higher and token-mean, without KL or groups of equal rewards; set `overlong` for the soft length
 * penalty.
 *
 * Mean over tokens: all weigh the same, so the tokens of long replies are not diluted (section 3.3). Source: DAPO,
 * arXiv:2503.14476.
 */
export const dapo = defineRecipe(dapoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
