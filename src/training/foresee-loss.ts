/**
 * The gradients that a loss will send to some of its tokens, from what the policy says of those alone.
 *
 * For losses of which `isTokenLocal` holds: what the policy says of the other tokens makes no difference, so that they need not be known yet.
 */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { Denominators } from "../flow/batch-statistics.ts";
import type { ScoredRows } from "../flow/token-batch.ts";
import type { Foresight } from "../models/causal-lm/token-logprobs.ts";
import { enableGrad, gradients } from "../torch/autograd.ts";
import type { Tensor } from "../torch/tensor.ts";
import { type PackedTokens, toGrid } from "./token-rows.ts";

/** Of the tokens of a pass over these rows. The loss is computed as it will be later, with zeros for what is not known. */
export function foreseeLoss(
  recipe: Pick<Recipe, "loss">,
  rows: ScoredRows,
  denominators: Denominators,
  { cells_N, numRows, numColumns }: Pick<PackedTokens, "cells_N" | "numRows" | "numColumns">,
): Foresight {
  // A critic's term sends nothing to the policy.
  const policyRows = { ...rows, returns_BT: null, oldValues_BT: null };
  return ({ logprob, entropy }, part) => {
    const cells = part(cells_N);
    const onGrid = (values: Tensor): Tensor => {
      const grid_BT = toGrid(values, { cells_N: cells, numRows, numColumns });
      grid_BT.requiresGrad = true;
      return grid_BT;
    };
    const [policyLogprobs_BT, entropies_BT] = [onGrid(logprob), onGrid(entropy)];
    const { loss } = enableGrad(() => recipe.loss({ rows: policyRows, policyLogprobs_BT, entropies_BT }, denominators));
    const [ofLogprobs, ofEntropies] = gradients([loss], [policyLogprobs_BT, entropies_BT]).map(
      (gradient_BT) => gradient_BT?.view(-1).indexSelect(0, cells) ?? null,
    );
    return { logprob: ofLogprobs!, entropy: ofEntropies! };
  };
}
