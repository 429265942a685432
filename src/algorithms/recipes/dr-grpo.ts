import { z } from "zod";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { ppoClipOptions, recipeOptions, singletonOption } from "../recipe-runner/recipe-options.ts";

const drGrpoOptions = recipeOptions("dr-grpo", {
  maxResponseLength: z
    .number()
    .positive()
    .describe("The largest length a reply may have: the constant that the sum over its tokens is divided by."),
  ...singletonOption,
  ...ppoClipOptions(0.2, 0.2),
});

/**
 * Rewards against the mean of their group, not scaled; clipped surrogate; the sum over tokens by a constant length.
 *
 * The sum is divided by the number of trajectories, as the paper's is by that of its replies; a fork adds nothing to it.
 * Neither long wrong replies nor easy prompts are favoured. Source: Dr. GRPO, arXiv:2503.20783.
 */
export const drGrpo = defineRecipe(drGrpoOptions, (options) => ({
  estimate: groupEstimate({ scale: "none", singleton: options.singleton }),
  policy: clipPiece(options),
  reduction: { type: "trajectory-mean-token-sum-norm", lengthDivisor: options.maxResponseLength },
}));
