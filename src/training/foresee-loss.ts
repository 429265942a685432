/**
 * The gradients that a loss will send to its tokens, before it is computed.
 *
 * Where they need nothing of the policy, as in the only update of a rollout, they are known beforehand; where they need what it says of the token
 * itself, they are known with that. Where they need other tokens too, they are awaited.
 */
import { type GradientNeeds, gradientNeeds } from "../algorithms/recipe-runner/gradient-needs.ts";
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { Denominators } from "../flow/batch-statistics.ts";
import type { ScoredRows } from "../flow/token-batch.ts";
import type { Foresight } from "../models/causal-lm/token-logprobs.ts";
import { enableGrad, gradients } from "../torch/autograd.ts";
import { zerosLike } from "../torch/create.ts";
import type { Tensor } from "../torch/tensor.ts";
import { type PackedTokens, toGrid } from "./token-rows.ts";

type TokenCells = Pick<PackedTokens, "cells_N" | "numRows" | "numColumns">;

export class LossForesight {
  readonly #recipe: Pick<Recipe, "loss">;
  /** Found at the first use of each kind of step: with the policy as its own anchor, and without. */
  readonly #needs = new Map<boolean, GradientNeeds>();
  /** Whether entropies had a gradient when it was last computed. */
  #sparesEntropy = false;

  constructor(recipe: Pick<Recipe, "loss">) {
    this.#recipe = recipe;
  }

  /** For the tokens of a pass over these rows; undefined where their gradients are awaited. Call it in the scope of the pass. */
  of(rows: ScoredRows, denominators: Denominators, tokens: TokenCells): Foresight | undefined {
    const needs = this.#needsOf(rows.anchorLogprobs_BT === null);
    if (needs === "others") return undefined;
    const gradientsAt = lossGradients(this.#recipe, rows, denominators, tokens);
    if (needs === "token") {
      const foresee: Foresight = ({ logprob, entropy }, part) => {
        const grads = gradientsAt({ logprob, entropy }, part(tokens.cells_N));
        this.#sparesEntropy = grads.entropy === null;
        return grads;
      };
      return Object.assign(foresee, { sparesEntropy: this.#sparesEntropy });
    }
    const { cells_N } = tokens;
    const nothing = zerosLike(cells_N).to(rows.advantages_BT.dtype);
    const all = gradientsAt({ logprob: nothing, entropy: nothing }, cells_N);
    const ahead: Foresight["ahead"] = (part) => ({
      logprob: all.logprob && part(all.logprob),
      entropy: all.entropy && part(all.entropy),
    });
    return Object.assign<Foresight, Pick<Foresight, "ahead">>((_, part) => ahead(part), { ahead });
  }

  #needsOf(isOwnAnchor: boolean): GradientNeeds {
    const needs = this.#needs.get(isOwnAnchor) ?? gradientNeeds(this.#recipe, isOwnAnchor);
    this.#needs.set(isOwnAnchor, needs);
    return needs;
  }
}

/** The gradients at some cells, from what the policy says there. The loss is computed as it will be later, with zeros elsewhere. */
function lossGradients(
  recipe: Pick<Recipe, "loss">,
  rows: ScoredRows,
  denominators: Denominators,
  { numRows, numColumns }: TokenCells,
) {
  // A critic's term sends nothing to the policy.
  const policyRows = { ...rows, returns_BT: null, oldValues_BT: null };
  return (seen: { readonly logprob: Tensor; readonly entropy: Tensor }, cells_N: Tensor): ReturnType<Foresight> => {
    const onGrid = (values: Tensor): Tensor => {
      const grid_BT = toGrid(values.detach(), { cells_N, numRows, numColumns });
      grid_BT.requiresGrad = true;
      return grid_BT;
    };
    const [policyLogprobs_BT, entropies_BT] = [onGrid(seen.logprob), onGrid(seen.entropy)];
    const { loss } = enableGrad(() => recipe.loss({ rows: policyRows, policyLogprobs_BT, entropies_BT }, denominators));
    const [logprob, entropy] = gradients([loss], [policyLogprobs_BT, entropies_BT]).map(
      (gradient_BT) => gradient_BT?.view(-1).indexSelect(0, cells_N) ?? null,
    );
    return { logprob: logprob!, entropy: entropy! };
  };
}
