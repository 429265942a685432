import { z } from "zod";
import { cispoLoss } from "../losses/policy/cispo.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { clipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const cispoOptions = recipeOptions("cispo", {
  ...scaleOption("group-std"),
  ...clipOptions(1, 4),
  dropsPpoClipped: z
    .boolean()
    .default(false)
    .describe("Also drop the tokens that PPO would not train on, as ROLL can."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Group-relative advantages; every token keeps its gradient, weighted by its ratio, which is capped at 1 + clipHigh.
 *
 * Mean over the tokens of a batch, as in the paper. Source: MiniMax-M1, arXiv:2506.13585; no lower bound and a ratio of at most 5 as in SkyRL and TRL.
 */
export const cispo = defineRecipe(cispoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    weighsSampler: "bypass",
    loss: (inputs) => {
      const { clipLow, clipHigh, dropsPpoClipped } = options;
      return cispoLoss(inputs, { clipLow, clipHigh, dropsPpoClipped });
    },
  },
  reduction: options.reduction,
}));
