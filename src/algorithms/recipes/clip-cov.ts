import { z } from "zod";
import { clipCovLoss, clipCovSelection } from "../losses/policy/clip-cov.ts";
import { contradiction } from "../recipe-runner/check-options.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { clipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const clipCovOptions = recipeOptions("clip-cov", {
  ...scaleOption("group-std"),
  ...clipOptions(0.2, 0.2),
  share: z.number().positive().max(1).default(2e-4).describe("Share of loss tokens to drop."),
  covarianceLow: z.number().default(1).describe("Tokens with a covariance above this may be dropped."),
  covarianceHigh: z.number().default(5).describe("Tokens with a covariance below this may be dropped."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Group-relative advantages; clipped surrogate that leaves out the tokens that drive the entropy down most.
 *
 * Mean over tokens, as in verl. The tokens with the largest covariances in the band are chosen once, over the whole
 * rollout; verl draws them at random. Source: Clip-Cov, arXiv:2505.22617; share and band are verl's.
 */
export const clipCov = defineRecipe(clipCovOptions, (options, path) => {
  const { clipLow, clipHigh, share, covarianceLow, covarianceHigh, reduction } = options;
  if (covarianceLow >= covarianceHigh) {
    throw contradiction(
      `${path}.covarianceLow must be below ${path}.covarianceHigh: got ${covarianceLow} and ${covarianceHigh}.`,
    );
  }
  const choice = { clipLow, clipHigh, share, covarianceLow, covarianceHigh };
  return {
    estimate: groupEstimate(options),
    policy: {
      hasRatio: true,
      select: (inputs) => clipCovSelection(inputs, choice),
      loss: (inputs) => clipCovLoss(inputs, choice),
    },
    reduction,
  };
});
