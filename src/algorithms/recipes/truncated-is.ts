import { z } from "zod";
import { truncatedIsLoss } from "../losses/policy/truncated-is.ts";
import { contradiction } from "../recipe-runner/check-options.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const truncatedIsOptions = recipeOptions("truncated-is", {
  ...scaleOption("none"),
  ratioLow: z.number().min(0).default(0).describe("Smallest ratio that is used."),
  ratioHigh: z.number().positive().default(1).describe("Largest ratio that is used."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Centered rewards; -clamp(r, ratioLow, ratioHigh) A log policy with the ratio held fixed.
 *
 * Mean over tokens, as in ROLL. Source: IMPALA, arXiv:1802.01561; for language models ROLL's `tis`.
 */
export const truncatedIs = defineRecipe(truncatedIsOptions, (options, path) => {
  const { ratioLow, ratioHigh, reduction } = options;
  if (ratioLow > ratioHigh) {
    throw contradiction(`${path}.ratioLow must be at most ${path}.ratioHigh: got ${ratioLow} and ${ratioHigh}.`);
  }
  return {
    estimate: groupEstimate(options),
    policy: {
      hasRatio: true,
      weighsSampler: "bypass",
      loss: (inputs) => truncatedIsLoss(inputs, { ratioLow, ratioHigh }),
    },
    reduction,
  };
});
