import { z } from "zod";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { ppoClipOptions, recipeOptions, singletonOption } from "../recipe-runner/recipe-options.ts";

const drGrpoOptions = recipeOptions("dr-grpo", {
  maxResponseLength: z
    .number()
    .positive()
    .describe("Maximum length of a reply, in tokens: the constant that the sum over its tokens is divided by."),
  ...singletonOption,
  ...ppoClipOptions(0.2, 0.2),
});

/**
 * Rewards minus the mean of their group, not scaled; clipped surrogate; the sum over tokens divided by a constant
 * length.
 *
 * The sum is also divided by the number of trajectories, as the paper divides by the number of replies; a fork adds
 * nothing to it. Neither long wrong replies nor easy prompts are favored. Source: Dr. GRPO, arXiv:2503.20783.
 */
export const drGrpo = defineRecipe(drGrpoOptions, (options) => ({
  estimate: groupEstimate({ scale: "none", singleton: options.singleton }),
  policy: clipPiece(options),
  reduction: { type: "trajectory-mean-token-sum-norm", lengthDivisor: options.maxResponseLength },
}));
