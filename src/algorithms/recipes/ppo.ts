import { z } from "zod";
import { tensor } from "../../torch/create.ts";
import { gae } from "../advantages/gae.ts";
import { zeroOutside } from "../masked.ts";
import { clipPiece } from "../recipe-runner/clip-piece.ts";
import { defineRecipe } from "../recipe-runner/define-recipe.ts";
import type { EstimateInputs } from "../recipe-runner/recipe.ts";
import { gammaOption, ppoClipOptions, recipeOptions, reductionOption } from "../recipe-runner/recipe-options.ts";

const ppoOptions = recipeOptions("ppo", {
  ...gammaOption,
  lambda: z
    .number()
    .min(0)
    .max(1)
    .default(0.95)
    .describe("Trade-off between bias (0) and variance (1) in generalized advantage estimation."),
  bootstrapsTruncated: z
    .boolean()
    .default(false)
    .describe(
      "Bootstrap from the critic's value where a limit ended the trajectory. Peers count such a trajectory as ended.",
    ),
  whitensAdvantages: z.boolean().default(true).describe("Scale advantages to mean 0 and variance 1 over all tokens."),
  ...ppoClipOptions(0.2, 0.2),
  valueClip: z.number().positive().nullable().default(0.5).describe("How far a value may move before it is clipped."),
  valueCoefficient: z.number().min(0).default(1).describe("Weight of the value loss."),
  ...reductionOption({ type: "token-mean" }),
});

/**
 * Whitened GAE advantages from a critic; clipped surrogate with dual clip; clipped value loss.
 *
 * Time runs along the trajectory, through all rows of a forked one. Mean over tokens, since each is a decision of its
 * own. Source: PPO, arXiv:1707.06347; defaults are verl's, except that lambda is ROLL's.
 */
export const ppo = defineRecipe(ppoOptions, (options) => {
  const { gamma, lambda, bootstrapsTruncated, valueClip, valueCoefficient, reduction } = options;
  return {
    needs: bootstrapsTruncated ? ["values_BT", "bootstrapValues_B"] : ["values_BT"],
    estimate: (inputs) => {
      const { rewards_BT, values_BT, lossMask_BT } = inputs;
      const bootstrap = bootstrapsTruncated ? { bootstrapValues_B: bootstrapValues(inputs) } : {};
      return gae({ rewards_BT, values_BT: values_BT!, lossMask_BT, ...bootstrap }, { gamma, lambda });
    },
    policy: clipPiece(options),
    critic: { valueClip, coefficient: valueCoefficient },
    reduction,
  };
});

function bootstrapValues({ bootstrapValues_B, isTruncated, lossMask_BT }: EstimateInputs) {
  const isTruncated_B = tensor(isTruncated.map(Number), { dtype: "bool", device: lossMask_BT.device });
  return zeroOutside(bootstrapValues_B!, isTruncated_B);
}
