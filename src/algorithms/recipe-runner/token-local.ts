/**
 * Whether the gradient that a loss sends to a token depends on what the policy says of that token alone.
 *
 * Then it is known as soon as the token's log-probability is, and scores over the vocabulary need not be computed a second time for it. It is
 * the loss itself that is asked: a few tokens go through it, what the policy says of one of them changes, by little and by much, and the
 * gradients of the others must stay what they were, to the bit. Ratios, clips, KL and entropy of tokens pass; ratios of sequences and
 * rejections of rows do not.
 */
import type { Denominators } from "../../flow/batch-statistics.ts";
import type { ScoredRows } from "../../flow/token-batch.ts";
import { enableGrad, gradients } from "../../torch/autograd.ts";
import { full, ones, tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Recipe } from "./recipe.ts";

/** By how much the log-probability of the first token is moved: within a clip range, out of it, and as far as anything goes. */
const CHANGES = [0.01, -0.5, 4, -60];

export function isTokenLocal(recipe: Pick<Recipe, "loss">): boolean {
  return tensorScope(() => {
    const plain = gradientsOf(recipe, 0);
    return CHANGES.every((change) => gradientsOf(recipe, change).every((value, i) => Object.is(value, plain[i])));
  });
}

/** The gradients at log-probabilities and entropies of all tokens but the first. */
function gradientsOf({ loss }: Pick<Recipe, "loss">, change: number): number[] {
  return enableGrad(() => {
    const policyLogprobs_BT = tensor([
      [-1 + change, -0.4, -2.1],
      [-0.7, -1.6, -3],
    ]);
    const entropies_BT = tensor([
      [1.5 - change / 100, 0.8, 2],
      [1, 2.5, 0.3],
    ]);
    policyLogprobs_BT.requiresGrad = true;
    entropies_BT.requiresGrad = true;
    const parts = loss({ rows: exampleRows(), policyLogprobs_BT, entropies_BT }, denominators);
    return gradients([parts.loss], [policyLogprobs_BT, entropies_BT]).flatMap((gradient) =>
      gradient === null ? [] : gradient.toArray().slice(1),
    );
  });
}

/** Two replies of three tokens, without a critic: its term says nothing of the policy. */
function exampleRows(): ScoredRows {
  return {
    samplerLogprobs_BT: tensor([
      [-1.05, -0.45, -2],
      [-0.75, -1.5, -3.1],
    ]),
    anchorLogprobs_BT: tensor([
      [-1.02, -0.41, -2.2],
      [-0.72, -1.55, -2.9],
    ]),
    referenceLogprobs_BT: full([2, 3], -1.2),
    advantages_BT: tensor([
      [1, 1, 1],
      [-1, -1, -1],
    ]),
    returns_BT: null,
    oldValues_BT: null,
    weights_BT: null,
    lossMask_BT: ones([2, 3]).gt(0),
    numSampled_B: full([2], 3),
    rowWeights_B: null,
    rewards_B: tensor([1, 0]),
    selected_BT: tensor([
      [0, 1, 0],
      [0, 0, 1],
    ]).gt(0),
    segments_BT: tensor(
      [
        [0, 0, 1],
        [0, 1, 1],
      ],
      { dtype: "int64" },
    ),
    groupOf: [0, 0],
    trajectoryOf: [0, 1],
    meanWeight: tensor(1),
    entropyCoefficient: 0.01,
  };
}

const denominators: Denominators = {
  numTokens: 6,
  numSequences: 2,
  numTrajectories: 2,
  numPrompts: 1,
  tokensPerTrajectory: new Map([
    [0, 3],
    [1, 3],
  ]),
  tokensPerPrompt: new Map([[0, 6]]),
};
