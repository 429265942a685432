import { z } from "zod";
import { squaredPenaltyLoss } from "../losses/policy/squared-penalty.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const kimiOptions = recipeOptions("kimi", {
  ...scaleOption("none"),
  beta: z.number().positive().default(0.1).describe("Weight of the squared penalty."),
  ...reductionOption({ type: "trajectory-mean-token-mean" }),
});

/**
 * Centered rewards; -A log policy, held to the anchor by the square of the log-ratio instead of a clip.
 *
 * Mean over tokens, then over trajectories: the paper's sample is the whole reply. Source: Kimi k1.5, arXiv:2501.12599,
 * per token as in ROLL's `kimi15`; verl's `dro`.
 */
export const kimi = defineRecipe(kimiOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: { hasRatio: false, loss: (inputs) => squaredPenaltyLoss(inputs, { beta: options.beta }) },
  reduction: options.reduction,
}));
