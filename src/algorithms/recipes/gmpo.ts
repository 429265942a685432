import { z } from "zod";
import { gmpoLoss } from "../losses/policy/gmpo.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, scaleOption } from "../recipe-runner/recipe-options.ts";

const gmpoOptions = recipeOptions("gmpo", {
  ...scaleOption("group-std"),
  clipLow: z.number().min(0).default(0.4).describe("Log-ratios below -clipLow are clipped."),
  clipHigh: z.number().min(0).default(0.4).describe("Log-ratios above clipHigh are clipped."),
});

/**
 * Group-relative advantages; the geometric mean of clipped token ratios; mean over trajectories.
 *
 * Each row of a forked trajectory has its own geometric mean, weighted by its share of the trajectory's tokens. KL and
 * entropy terms, which have a value per token, are averaged over the tokens of a trajectory, then over trajectories.
 * Source: GMPO, arXiv:2507.20673, with its clip range.
 */
export const gmpo = defineRecipe(gmpoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    loss: (inputs) => gmpoLoss(inputs, { clipLow: options.clipLow, clipHigh: options.clipHigh }),
  },
  reduction: { type: "trajectory-mean-token-mean" },
}));
