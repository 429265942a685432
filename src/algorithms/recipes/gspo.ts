import { gspoLoss } from "../losses/policy/gspo.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { clipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const gspoOptions = recipeOptions("gspo", {
  ...scaleOption("group-std"),
  ...clipOptions(3e-4, 4e-4),
  ...reductionOption({ type: "trajectory-mean-token-mean" }),
});

/**
 * Group-relative advantages; one tightly clipped ratio per sequence, the geometric mean of its token ratios.
 *
 * A sequence is a row: a forked trajectory has one ratio per row, since its rows go through the model separately, and
 * still counts once in the mean over trajectories. Source: GSPO, arXiv:2507.18071, with its clip range.
 */
export const gspo = defineRecipe(gspoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    loss: (inputs) => gspoLoss(inputs, { clipLow: options.clipLow, clipHigh: options.clipHigh }),
  },
  reduction: options.reduction,
}));
