import { z } from "zod";
import { passAtK as passAtKAdvantages } from "../advantages/pass-at-k.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const passAtKOptions = recipeOptions("pass-at-k", {
  scaleByStd: z.boolean().default(true).describe("Divide by the standard deviation of the group."),
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Only the best sample of a group counts, by how much it beats the second best; clipped surrogate.
 *
 * k is the size of the group. Mean over tokens, as in verl. Source: arXiv:2503.19595; verl's `grpo_passk`.
 */
export const passAtK = defineRecipe(passAtKOptions, (options) => ({
  estimate: rowEstimate(({ rewards_B, groupOf }) =>
    passAtKAdvantages(rewards_B, groupOf, { scaleByStd: options.scaleByStd }),
  ),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
