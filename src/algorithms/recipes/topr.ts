import { z } from "zod";
import { toprLoss } from "../losses/policy/topr.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const toprOptions = recipeOptions("topr", {
  ...scaleOption("none"),
  weightPositive: z.number().min(0).default(1).describe("Weight of sequences with a reward above 0."),
  weightNegative: z.number().min(0).default(1).describe("Weight of all other sequences."),
  level: z
    .enum(["token", "sequence"])
    .default("token")
    .describe("Ratio to use: the token's, as in ROLL, or the sequence's, as in the paper."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Centered rewards; good samples are imitated, bad ones pushed down only while the policy still produces them.
 *
 * Mean over tokens, as in ROLL. The raw reward of the trajectory decides which side a sample is on, so wrong replies need a reward of at most 0. Source: TOPR,
 * arXiv:2503.14286.
 */
export const topr = defineRecipe(toprOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    weighsSampler: "bypass",
    loss: (inputs) => {
      const { weightPositive, weightNegative, level } = options;
      return toprLoss(inputs, { weightPositive, weightNegative, level });
    },
  },
  reduction: options.reduction,
}));
