import { z } from "zod";
import { decoupledPpoLoss } from "../losses/policy/decoupled-ppo.ts";
import { contradiction } from "../recipe-runner/check-options.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import { groupEstimate } from "../recipe-runner/group-estimate.ts";
import { ppoClipOptions, recipeOptions, reductionOption, scaleOption } from "../recipe-runner/recipe-options.ts";

const decoupledPpoOptions = recipeOptions("decoupled-ppo", {
  ...scaleOption("group-std"),
  ...ppoClipOptions(0.2, 0.2, null),
  weightCap: z
    .number()
    .positive()
    .nullable()
    .default(5)
    .describe("Maximum of the weight anchor / sampler. null: no maximum."),
  overCap: z
    .enum(["truncate", "drop"])
    .default("drop")
    .describe("Truncate larger weights to the cap, or drop their tokens."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Group-relative advantages; clipped surrogate around the anchor, weighted by anchor / sampler. For asynchronous runs.
 *
 * Mean over tokens, as in AReaL. Source: AReaL, arXiv:2505.24298, with its cap, after Hilton et al. 2021.
 */
export const decoupledPpo = defineRecipe(decoupledPpoOptions, (options, path) => {
  const { clipLow, clipHigh, dualClip, weightCap, overCap, reduction } = options;
  if (options.bypass !== null) {
    throw contradiction(
      `${path}.bypass makes the sampler the anchor, and decoupled-ppo is there to keep them apart. Set bypass to null, or ` +
        "type to grpo.",
    );
  }
  if (options.correction?.importance) {
    throw contradiction(
      `${path}.correction.importance weighs tokens by anchor / sampler, which decoupled-ppo does itself. Set importance to ` +
        "null and use weightCap, or type to grpo.",
    );
  }
  return {
    estimate: groupEstimate(options),
    policy: {
      hasRatio: true,
      weighsSampler: "always",
      loss: (inputs) => decoupledPpoLoss(inputs, { clipLow, clipHigh, dualClip, weightCap, overCap }),
    },
    reduction,
  };
});
