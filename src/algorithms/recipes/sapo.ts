import { z } from "zod";
import { sapoLoss } from "../losses/policy/sapo.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const sapoOptions = recipeOptions("sapo", {
  ...scaleOption("group-std"),
  temperaturePositive: z.number().positive().default(1).describe("How fast the gate closes for tokens with A > 0."),
  temperatureNegative: z.number().positive().default(1.05).describe("How fast the gate closes for tokens with A <= 0."),
  ...reductionOption({ type: "trajectory-mean-token-mean" }),
});

/**
 * Group-relative advantages; a smooth gate on the ratio instead of a clip.
 *
 * Mean over tokens, then over trajectories, as in GRPO. Source: SAPO, arXiv:2511.20347, with its temperatures.
 */
export const sapo = defineRecipe(sapoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    loss: (inputs) => {
      const { temperaturePositive, temperatureNegative } = options;
      return sapoLoss(inputs, { temperaturePositive, temperatureNegative });
    },
  },
  reduction: options.reduction,
}));
