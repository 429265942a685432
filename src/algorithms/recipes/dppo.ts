import { z } from "zod";
import { dppoLoss } from "../losses/policy/dppo.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const dppoOptions = recipeOptions("dppo", {
  ...scaleOption("none"),
  divergence: z
    .enum(["tv", "kl"])
    .default("tv")
    .describe("Divergence that bounds the trust region: total variation or KL."),
  divergenceLow: z
    .number()
    .min(0)
    .default(0.2)
    .describe("Tokens with A <= 0 are dropped once the policy is this far below the anchor."),
  divergenceHigh: z
    .number()
    .min(0)
    .default(0.2)
    .describe("Tokens with A > 0 are dropped once the policy is this far above the anchor."),
  ratioHigh: z.number().positive().default(20).describe("Largest ratio that is used."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Centered rewards; the ratio-weighted gradient of the tokens inside a trust region of probabilities.
 *
 * Mean over tokens, as in prime-rl. The bounds are for tv; KL is on another scale and needs its own. Source: DPPO,
 * arXiv:2602.04879; the values are prime-rl's.
 */
export const dppo = defineRecipe(dppoOptions, (options) => ({
  estimate: groupEstimate(options),
  policy: {
    hasRatio: true,
    loss: (inputs) => {
      const { divergence, divergenceLow, divergenceHigh, ratioHigh } = options;
      return dppoLoss(inputs, { divergence, divergenceLow, divergenceHigh, ratioHigh });
    },
  },
  reduction: options.reduction,
}));
