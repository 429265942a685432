import { z } from "zod";
import { gigpo as gigpoAdvantages } from "../advantages/gigpo.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";
import { rowEstimate } from "../recipe-runner/row-estimate.ts";

const gigpoOptions = recipeOptions("gigpo", {
  gamma: z.number().min(0).max(1).default(0.95).describe("Discount per step."),
  episodeWeight: z.number().min(0).default(1).describe("Weight of the episode's advantage."),
  stepWeight: z.number().min(0).default(1).describe("Weight of the step's advantage."),
  scale: z
    .enum(["none", "group-std"])
    .default("none")
    .describe("What both advantages are divided by: nothing, or the standard deviation of their group."),
  episodeMean: z
    .enum(["trajectories", "steps"])
    .default("trajectories")
    .describe("What the mean of a group is taken over; steps let long trajectories count more, as in verl-agent."),
  ...ppoClipOptions(0.2, 0.2),
  ...reductionOption({ type: "seq-mean-token-mean" }),
});

/**
 * For agents, a row per step: the advantage of the episode in its group plus that of the step among steps from the same
 * state; clipped surrogate.
 *
 * Mean over tokens, then steps: the paper's objective averages over the steps of all trajectories. Source: GiGPO, arXiv:2505.10978, with its discount and weights.
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
