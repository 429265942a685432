/**
 * For every recipe: the gradient of a batch does not depend on how the batch is cut into microbatches, in which order its rows and
 * groups lie, how far they are padded, or into how many rows its trajectories were forked. That it does not depend on ranks either
 * is in test/training.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readCorrectionMetrics } from "../../src/algorithms/corrections/correction-metrics.ts";
import { addMetrics, readMetrics } from "../../src/algorithms/losses/loss-metrics.ts";
import type { Recipe, RecipeState } from "../../src/algorithms/recipe-runner/recipe.ts";
import { type RecipeChoice, type RecipeName, recipes } from "../../src/algorithms/recipes/table.ts";
import { globalDenominators } from "../../src/algorithms/reduce.ts";
import type { Denominators } from "../../src/flow/batch-statistics.ts";
import { type RecipeLoss, type ScoredBatch, type ScoredRows, selectRows } from "../../src/flow/token-batch.ts";
import { gradients } from "../../src/torch/autograd.ts";
import { tensor, zerosLike } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { fork, type PolicyOutputs, type RandomRollout, randomRollout, reorder } from "./random-rollout.ts";

const TOLERANCE = 1e-9;

/** Options that a recipe cannot do without, or that make its special tokens show in a small batch. */
const required: Partial<Record<RecipeName, Record<string, unknown>>> = {
  "dr-grpo": { maxResponseLength: 16 },
  "kl-cov": { share: 0.2 },
  "clip-cov": { share: 0.2, covarianceLow: 0, covarianceHigh: 50 },
  gspo: { clipLow: 0.1, clipHigh: 0.2 },
};

const correction = {
  importance: { level: "sequence", threshold: 3, isSelfNormalized: true },
  rejections: { token_k1: "0.5_2.0", seq_max_k2: 2.5 },
};
const everyTerm = {
  correction,
  klReward: { coefficient: 0.05, adaptive: { targetKl: 0.1 } },
  klLoss: { coefficient: 0.1, estimator: "k3+" },
  entropy: { type: "adaptive", coefficient: 0.02, target: 1 },
  overlong: { maxTokens: 8, bufferTokens: 4 },
  outliers: { of: "ratio", low: 0.3, high: 3 },
  offPolicySequences: { threshold: 0.3 },
  staleness: { max: 3, scope: "sequence" },
  masksTruncated: true,
  rewardClip: 1,
  whitensAdvantages: true,
  advantageClip: 2,
};
const promptMean = { reduction: { type: "prompt-mean" } };
const bypass = {
  correction: { ...correction, convention: "verl", rejections: { token_k1: "0.5_2.0" } },
  bypass: {},
  entropy: { type: "fixed", coefficient: 0.01 },
  truncatedPenalty: 0.3,
  rewardNormalization: {},
};
const bypassReinforce = { ...bypass, bypass: { loss: "reinforce" } };

/** What a recipe refuses in these settings, taken out. */
const refused: Partial<Record<RecipeName, Record<string, unknown>>> = {
  maxrl: { klReward: null, overlong: null, truncatedPenalty: null, rewardNormalization: { isCentered: false } },
  "decoupled-ppo": { correction: { ...correction, importance: null }, bypass: null },
};

describe.each(Object.keys(recipes) as RecipeName[])("%s", (name) => {
  const hasReduction = "reduction" in recipes[name].options.shape;
  const settings = {
    "with its defaults": {},
    "with every term and mask": everyTerm,
    ...(hasReduction && { "with prompt-mean": promptMean }),
    "in bypass mode": bypass,
    "in bypass mode with REINFORCE": bypassReinforce,
  };
  test.each(Object.entries(settings))("%s has one gradient for all ways to cut a batch", (_, options) => {
    const isPlain = Object.keys(options).length === 0;
    const choice = { type: name, ...required[name], ...options, ...(isPlain ? {} : refused[name]) };
    const recipe = recipes[name].build(choice as RecipeChoice);
    let largest = 0;
    fc.assert(
      fc.property(rollouts, fc.integer({ min: 0, max: 2 ** 30 }), ({ seed, groupSizes, numTokens }, shuffle) => {
        const found = tensorScope(() => expectInvariant(recipe, randomRollout(seed, groupSizes, numTokens), shuffle));
        largest = Math.max(largest, found);
      }),
      { numRuns: 4, seed: 11 },
    );
    // Gradients that are all 0 would be equal too.
    expect(largest).toBeGreaterThan(1e-3);
  });
});

test("denominators of the parts themselves give another gradient", () => {
  const recipe = recipes.grpo.build({ type: "grpo" });
  const { batch, outputs } = randomRollout(1, [3, 2, 4], 8);
  const scored = recipe.score(batch);
  const parts = [
    [0, 1],
    [2, 3, 4, 5],
    [6, 7, 8],
  ];
  const whole = run(recipe, scored, outputs, parts, scored.denominators);
  const first = selectRows(scored, parts[0]!);
  const counted = globalDenominators(first.lossMask_BT, first.groupOf, first.trajectoryOf);
  // What they do not know at all would be an error: only the numbers are of a part.
  const { tokensPerTrajectory } = scored.denominators;
  const local = run(recipe, scored, outputs, parts, { ...counted, tokensPerTrajectory });
  expect(largestDifference(local.gradient, whole.gradient)).toBeGreaterThan(1e-3);
});

/** A state that has seen rewards, so that they are scaled, and those of one domain otherwise than those of the other. */
function stateOf(recipe: Recipe): RecipeState {
  const rewards = [0, 1, 1].flatMap((reward) => [
    { domain: "math", reward },
    { domain: "code", reward: 1.5 * reward },
  ]);
  return recipe.observe(recipe.initialState, rewards);
}

/** A sequence is a row, so what is taken over sequences knows of forks; these are the same settings without it. */
const tokenCorrection = {
  importance: { level: "token", threshold: 3, isSelfNormalized: true },
  rejections: { token_k1: "0.5_2.0" },
};
const { offPolicySequences: _, ...withoutSequences } = everyTerm;
const everyTokenTerm = { ...withoutSequences, correction: tokenCorrection, staleness: { max: 3, scope: "token" } };
const tokenBypass = { ...bypass, correction: { ...tokenCorrection, convention: "verl" } };

describe.each((Object.keys(recipes) as RecipeName[]).filter((name) => name !== "gigpo"))("%s", (name) => {
  // Their ratios are of rows: with the ratio of an on-policy update, which is 1, forks change nothing.
  const hasRowRatio = name === "gspo" || name === "gmpo";
  const hasReduction = "reduction" in recipes[name].options.shape;
  const settings = {
    "with its defaults": {},
    "with every term and mask of tokens": everyTokenTerm,
    // Rejected in the loss, tokens leave their share to their row; a mean over the prompt has none to leave.
    ...(!hasRowRatio && { "in bypass mode": { ...tokenBypass, ...(hasReduction && promptMean) } }),
  };
  test.each(Object.entries(settings))(
    "%s is the same whatever rows its trajectories were forked into",
    (_, options) => {
      const isPlain = Object.keys(options).length === 0;
      const choice = { type: name, ...required[name], ...options, ...(isPlain ? {} : refusedOfTokens[name]) };
      const recipe = recipes[name].build(choice as RecipeChoice);
      let largest = 0;
      fc.assert(
        fc.property(rollouts, fc.integer({ min: 0, max: 2 ** 30 }), ({ seed, groupSizes, numTokens }, shuffle) => {
          const found = tensorScope(() => {
            const rollout = randomRollout(seed, groupSizes, numTokens, 1);
            return expectForkless(recipe, hasRowRatio ? onPolicy(rollout) : rollout, shuffle);
          });
          largest = Math.max(largest, found);
        }),
        { numRuns: 3, seed: 12 },
      );
      expect(largest).toBeGreaterThan(1e-3);
    },
  );
});

const refusedOfTokens: typeof refused = {
  ...refused,
  // Its weights are those of rows too: their geometric mean.
  gmpo: { correction: { ...tokenCorrection, importance: null } },
  "decoupled-ppo": { correction: { ...tokenCorrection, importance: null }, bypass: null },
};

/** Compares a rollout with the same one forked, and returns the largest entry of its gradient. */
function expectForkless(recipe: Recipe, rollout: RandomRollout, shuffle: number): number {
  const scored = recipe.score(rollout.batch, stateOf(recipe));
  const rows = scored.groupOf.map((_, row) => row);
  const whole = run(recipe, scored, rollout.outputs, [rows], scored.denominators);
  const forked = fork(rollout, (place) => scramble(place, shuffle) % 2 === 0);
  const forkedScore = recipe.score(forked.batch, stateOf(recipe));
  const { numSequences: _, ...counts } = scored.denominators;
  expect(forkedScore.denominators).toMatchObject(counts);
  expectSameMetrics(forkedScore, scored);
  const forkedRows = shuffled(
    forkedScore.groupOf.map((_, row) => row),
    shuffle,
  );
  const again = run(recipe, forkedScore, forked.outputs, cut(forkedRows, shuffle), forkedScore.denominators);
  expectSame({ ...again, gradient: restoreCells(again.gradient, forked.cells, whole.gradient.length / 3) }, whole);
  return whole.gradient.reduce((worst, value) => Math.max(worst, Math.abs(value)), 0);
}

function onPolicy({ batch, outputs }: RandomRollout): RandomRollout {
  const policyLogprobs_BT = batch.anchorLogprobs_BT!.clone();
  policyLogprobs_BT.requiresGrad = true;
  return { batch, outputs: { ...outputs, policyLogprobs_BT } };
}

const rollouts = fc.record({
  seed: fc.integer({ min: 0, max: 2 ** 30 }),
  groupSizes: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 4 }),
  numTokens: fc.integer({ min: 4, max: 9 }),
});

/** Compares all ways to cut a rollout, and returns the largest entry of its gradient. */
function expectInvariant(recipe: Recipe, rollout: RandomRollout, shuffle: number): number {
  const scored = recipe.score(rollout.batch, stateOf(recipe));
  const B = scored.groupOf.length;
  const rows = Array.from({ length: B }, (_, row) => row);
  const order = shuffled(rows, shuffle);
  const whole = run(recipe, scored, rollout.outputs, [rows], scored.denominators);
  expect(whole.gradient.every(Number.isFinite)).toBe(true);

  const oneByOne = rows.map((row) => [row]);
  const ragged = cut(order, shuffle);
  for (const parts of [[order], oneByOne, ragged]) {
    expectSame(run(recipe, scored, rollout.outputs, parts, scored.denominators), whole);
  }

  const moved = reorder(rollout, order);
  const movedScore = recipe.score(moved.batch, stateOf(recipe));
  const again = run(recipe, movedScore, moved.outputs, [rows], movedScore.denominators);
  expectSame({ ...again, gradient: restoreRows(again.gradient, order) }, whole);
  expectSameMetrics(movedScore, scored);
  return whole.gradient.reduce((worst, value) => Math.max(worst, Math.abs(value)), 0);
}

interface Run {
  readonly loss: number;
  /** With respect to log-probs, entropies and values, one after the other. */
  readonly gradient: number[];
  readonly metrics: Record<string, number>;
}

/** The loss of every part on its own, cut to its longest row, and the sum of all gradients. */
function run(
  recipe: Recipe,
  scored: ScoredBatch,
  outputs: PolicyOutputs,
  parts: readonly (readonly number[])[],
  denominators: Denominators,
): Run {
  const leaves = [outputs.policyLogprobs_BT, outputs.entropies_BT, outputs.values_BT];
  const losses = parts.map((part) => partLoss(recipe, scored, outputs, part, denominators));
  const total = losses.reduce<Tensor[]>(
    (sum, { loss }) => gradients([loss], leaves).map((part, i) => (part === null ? sum[i]! : sum[i]!.add(part))),
    leaves.map(zerosLike),
  );
  return {
    loss: losses.reduce((sum, { loss }) => sum + loss.item(), 0),
    gradient: total.flatMap((gradient) => gradient.toArray()),
    metrics: readMetrics(addMetrics(losses.map(({ metrics }) => metrics))),
  };
}

function partLoss(
  recipe: Recipe,
  scored: ScoredBatch,
  outputs: PolicyOutputs,
  part: readonly number[],
  denominators: Denominators,
): RecipeLoss {
  const index_B = tensor([...part], { dtype: "int64" });
  const rows = selectRows(scored, part);
  const T = longest(rows.lossMask_BT);
  const trim = (values_BT: Tensor): Tensor => values_BT.narrow(1, 0, T);
  return recipe.loss(
    {
      rows: trimRows(rows, trim),
      policyLogprobs_BT: trim(outputs.policyLogprobs_BT.indexSelect(0, index_B)),
      entropies_BT: trim(outputs.entropies_BT.indexSelect(0, index_B)),
      values_BT: trim(outputs.values_BT.indexSelect(0, index_B)),
    },
    denominators,
  );
}

function trimRows(rows: ScoredRows, trim: (values_BT: Tensor) => Tensor): ScoredRows {
  const entries = Object.entries(rows).map(([name, value]) => [
    name,
    name.endsWith("_BT") && value ? trim(value) : value,
  ]);
  return { ...rows, ...Object.fromEntries(entries) };
}

/** One past the last loss token of any row; at least 1. */
function longest(lossMask_BT: Tensor): number {
  const counts = lossMask_BT.sum(0).toArray();
  return Math.max(counts.findLastIndex((count) => count > 0) + 1, 1);
}

function expectSame(got: Run, expected: Run): void {
  expect(Math.abs(got.loss - expected.loss)).toBeLessThanOrEqual(TOLERANCE);
  expect(largestDifference(got.gradient, expected.gradient)).toBeLessThanOrEqual(TOLERANCE);
  for (const [name, value] of Object.entries(expected.metrics)) expect(got.metrics[name]).toBeCloseTo(value, 9);
}

/** Rewards, advantages and what is kept, as they are reported. */
function expectSameMetrics(got: ScoredBatch, expected: ScoredBatch): void {
  const [left, right] = [got, expected].map(({ metrics }) => readCorrectionMetrics(metrics));
  for (const [name, value] of Object.entries(right!)) {
    if (name.startsWith("score/")) expect(left![name], name).toBeCloseTo(value, 7);
  }
}

function largestDifference(got: readonly number[], expected: readonly number[]): number {
  return expected.reduce((worst, value, i) => Math.max(worst, Math.abs(got[i]! - value)), 0);
}

/** Row i of a reordered gradient back to row order[i], for each of the three blocks. */
function restoreRows(gradient: readonly number[], order: readonly number[]): number[] {
  const T = gradient.length / (3 * order.length);
  const restored = new Array<number>(gradient.length);
  gradient.forEach((value, at) => {
    const row = Math.floor(at / T) % order.length;
    restored[at + (order[row]! - row) * T] = value;
  });
  return restored;
}

/** The gradient of forked rows at the cells that they came from, for each of the three blocks. */
function restoreCells(gradient: readonly number[], cells: readonly number[], size: number): number[] {
  const restored = new Array<number>(3 * size).fill(0);
  gradient.forEach((value, at) => {
    const cell = cells[at % cells.length]!;
    if (cell < size) restored[Math.floor(at / cells.length) * size + cell] = value;
  });
  return restored;
}

/** A permutation and a cut that depend on a number only. */
function shuffled(items: readonly number[], seed: number): number[] {
  return items.toSorted((a, b) => scramble(a, seed) - scramble(b, seed));
}

function cut(items: readonly number[], seed: number): number[][] {
  const parts: number[][] = [[]];
  for (const item of items) {
    if (parts.at(-1)!.length > 0 && scramble(item, seed) % 3 === 0) parts.push([]);
    parts.at(-1)!.push(item);
  }
  return parts;
}

function scramble(item: number, seed: number): number {
  return Math.imul((item + 1) ^ seed, 2_654_435_761) >>> 7;
}
