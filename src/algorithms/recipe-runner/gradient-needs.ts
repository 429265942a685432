/**
 * What must be known of the policy before the gradient is that a loss sends to a token.
 *
 * Where that is nothing, or what the policy says of that token alone, scores over the vocabulary need not be computed a second time for it. It is
 * the loss itself that is asked: a few tokens go through it, what the policy says of one of them changes, by little and by much, and gradients
 * are compared to the bit. Ratios, clips, KL and entropy of tokens need the token; ratios of sequences and rejections of rows need others.
 */
import type { Denominators } from "../../flow/batch-statistics.ts";
import type { ScoredRows } from "../../flow/token-batch.ts";
import { enableGrad, gradients } from "../../torch/autograd.ts";
import { full, ones, tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Recipe } from "./recipe.ts";

/** The first token of either reply: one with a reward and one without, since losses treat them differently. */
const MOVED = [0, 3];

/** By how much the log-probability of such a token is moved: within a clip range, out of it, and as far as anything goes. */
const CHANGES = [0.01, -0.5, 4, -60];

/** Nothing, the log-probability and entropy of the token itself, or those of other tokens as well. */
export type GradientNeeds = "nothing" | "token" | "others";

/** For steps in which the policy is its own anchor, or not. */
export function gradientNeeds(recipe: Pick<Recipe, "loss">, isOwnAnchor: boolean): GradientNeeds {
  return tensorScope(() => {
    const plain = gradientsOf(recipe, isOwnAnchor, { place: 0, by: 0 });
    const differs = MOVED.flatMap((place) =>
      CHANGES.flatMap((by) =>
        gradientsOf(recipe, isOwnAnchor, { place, by }).flatMap((value, i) =>
          Object.is(value, plain[i]) ? [] : [i % NUM_TOKENS === place ? "token" : "others"],
        ),
      ),
    );
    if (differs.includes("others")) return "others";
    return differs.includes("token") ? "token" : "nothing";
  });
}

interface Move {
  readonly place: number;
  readonly by: number;
}

/** The gradients at the log-probabilities, and then at the entropies, of all tokens. */
function gradientsOf({ loss }: Pick<Recipe, "loss">, isOwnAnchor: boolean, { place, by }: Move): number[] {
  return enableGrad(() => {
    const moved = (values: readonly number[], change: number) => {
      const all = values.map((value, i) => (i === place ? value + change : value));
      return tensor([all.slice(0, 3), all.slice(3)]);
    };
    const policyLogprobs_BT = moved([-1, -0.4, -2.1, -0.7, -1.6, -3], by);
    const entropies_BT = moved([1.5, 0.8, 2, 1, 2.5, 0.3], -by / 100);
    policyLogprobs_BT.requiresGrad = true;
    entropies_BT.requiresGrad = true;
    const rows = { ...exampleRows(), ...(isOwnAnchor && { anchorLogprobs_BT: null }) };
    const parts = loss({ rows, policyLogprobs_BT, entropies_BT }, denominators);
    return gradients([parts.loss], [policyLogprobs_BT, entropies_BT]).flatMap((gradient) => gradient?.toArray() ?? []);
  });
}

const NUM_TOKENS = 6;

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
