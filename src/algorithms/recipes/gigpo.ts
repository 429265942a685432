import { z } from "zod";
import { gigpo as gigpoAdvantages } from "../advantages/gigpo.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const gigpoOptions = recipeOptions("gigpo", {
  gamma: z.number().min(0).max(1).default(0.95).describe("Discount factor per step."),
  episodeWeight: z.number().min(0).default(1).describe("Weight of the episode's advantage."),
  stepWeight: z.number().min(0).default(1).describe("Weight of the step's advantage."),
  scale: z
    .enum(["none", "group-std"])
    .default("none")
    .describe("What both advantages are divided by: nothing, or the standard deviation of their group."),
  episodeMean: z
    .enum(["trajectories", "steps"])
    .default("trajectories")
    .describe(
      "Take the mean of a group over its trajectories, or over all of their steps, so that long ones count more, as in verl-agent.",
    ),
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "seq-mean-token-mean" }),
});

/**
 * For agents, with one row per step: the advantage of the episode within its group plus the advantage of the step among
 * steps from the same state; clipped surrogate.
 *
 * Mean over tokens, then over steps: the paper's objective averages over the steps of all trajectories. Source: GiGPO,
 * arXiv:2505.10978, with its discount and weights.
 */
export const gigpo = defineRecipe(gigpoOptions, (options) => ({
  needs: ["stateOf"],
  estimatesOver: "steps",
  estimate: rowEstimate(({ rewards_B, groupOf, steps }) => {
    const { gamma, episodeWeight, stepWeight, scale, episodeMean } = options;
    const inputs = { rewards_B, groupOf, ...steps! };
    return gigpoAdvantages(inputs, { gamma, episodeWeight, stepWeight, scale, episodeMean }).advantages_B;
  }),
  policy: clipPiece(options),
  reduction: options.reduction,
}));
