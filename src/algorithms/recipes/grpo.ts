import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { ppoClipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const grpoOptions = recipeOptions("grpo", {
  ...scaleOption("group-std"),
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "trajectory-mean-token-mean" }),
});

/**
 * Rewards normalized by the mean and standard deviation of their group; clipped surrogate; mean over tokens, then over
 * trajectories.
 *
 * The paper's samples are trajectories: each counts once, however long it is and however many rows it was forked into.
 * The paper adds `klLoss: { coefficient: 0.04 }`; verl's examples use 0.001 and TRL none. With `scale: "batch-std"` and
 * token-mean this is Lite PPO. Source: GRPO, arXiv:2402.03300.
 */
export const grpo = defineRecipe(grpoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
