import { segmentClipLoss } from "../losses/policy/segment-clip.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { clipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const segmentPpoOptions = recipeOptions("segment-ppo", {
  ...scaleOption("group-std"),
  ...clipOptions(0.2, 0.2),
  ...reductionOption({ type: "trajectory-mean-token-mean" }),
});

/**
 * For dialogues: group-relative advantages; one ratio per turn, clipped; mean over tokens, then over trajectories, as
 * in GRPO.
 *
 * Turns are the runs of the loss mask, before any token is rejected. Source: ROLL, `ratio_type: segment`.
 */
export const segmentPpo = defineRecipe(segmentPpoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    usesSegments: true,
    loss: (inputs) => segmentClipLoss(inputs, { clipLow: options.clipLow, clipHigh: options.clipHigh }),
  },
  reduction: options.reduction,
}));
