import { z } from "zod";
import { gpg as gpgAdvantages } from "../advantages/gpg.ts";
import { reinforceLoss } from "../losses/policy/reinforce.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { recipeOptions, reductionOption, singletonOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const gpgOptions = recipeOptions("gpg", {
  countBy: z
    .enum(["groups", "rewards"])
    .default("groups")
    .describe(
      "Which samples carry signal: those of groups whose rewards differ, or those whose reward is not 0, as in verl.",
    ),
  normalizer: z
    .number()
    .positive()
    .default(1)
    .describe("Constant that advantages are divided by, F_norm in the paper."),
  ...singletonOption,
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Centered rewards, rescaled to make up for samples that carry no signal; -A log policy, without ratio or clip.
 *
 * Mean over tokens, as in the paper. Source: GPG, arXiv:2504.02546.
 */
export const gpg = defineRecipe(gpgOptions, (options) => ({
  estimate: rowEstimate(({ rewards_B, groupOf }) => {
    const { countBy, normalizer, singleton } = options;
    return gpgAdvantages(rewards_B, groupOf, { countBy, normalizer, singleton });
  }),
  policy: { hasRatio: false, loss: (inputs) => reinforceLoss(inputs, { importance: "none" }) },
  reduction: options.reduction,
}));
