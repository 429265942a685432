import { z } from "zod";
import { discountedReturns } from "../advantages/discounted-returns.ts";
import { reinforceLoss } from "../losses/policy/reinforce.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { gammaOption, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";

const reinforceOptions = recipeOptions("reinforce", {
  ...gammaOption,
  importance: z
    .enum(["none", "ratio"])
    .default("ratio")
    .describe("Whether the plain ratio policy / anchor multiplies the gradient."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Discounted returns without a baseline; -r A log policy with the ratio r held fixed.
 *
 * Returns run along the trajectory, through all rows of a forked one. Mean over tokens. Source: Williams 1992; with the ratio it is the default loss of tinker.
 */
export const reinforce = defineRecipe(reinforceOptions, (options) => ({
  estimate: ({ rewards_BT, lossMask_BT }) => ({
    advantages_BT: discountedReturns(rewards_BT, lossMask_BT, { gamma: options.gamma }),
  }),
  policy: {
    hasRatio: options.importance === "ratio",
    loss: (inputs) => reinforceLoss(inputs, { importance: options.importance }),
  },
  reduction: options.reduction,
}));
