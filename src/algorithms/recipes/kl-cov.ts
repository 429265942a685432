import { z } from "zod";
import { klCovLoss, klCovSelection } from "../losses/policy/kl-cov.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const klCovOptions = recipeOptions("kl-cov", {
  ...scaleOption("group-std"),
  share: z.number().positive().max(1).default(2e-4).describe("Share of loss tokens to penalize."),
  penalty: z.number().min(0).default(1).describe("Weight of the penalty."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Group-relative advantages; the plain ratio, with a KL penalty on the tokens that drive the entropy down.
 *
 * Mean over tokens, as in verl. The tokens are chosen once over the whole rollout. Source: KL-Cov, arXiv:2505.22617;
 * defaults are verl's.
 */
export const klCov = defineRecipe(klCovOptions, (options) => {
  const { share, penalty, reduction } = options;
  return {
    estimate: groupEstimate(options),
    policy: {
      hasRatio: true,
      select: (inputs) => klCovSelection(inputs, { share, penalty }),
      loss: (inputs) => klCovLoss(inputs, { share, penalty }),
    },
    reduction,
  };
});
