/** The loss of some rows of a scored batch: policy, KL, entropy and value terms, each its share of the whole batch. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CorrectionMetrics, Denominators, LossMetrics } from "../../flow/batch-statistics.ts";
import type { LossTerm, Microbatch, RecipeLoss, ScoredRows, ValueRows } from "../../flow/token-batch.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { correctRollout, uncorrectedMetrics } from "../corrections/rollout-correction.ts";
import { parseKlEstimator } from "../kl/estimate.ts";
import { klLoss } from "../kl/loss.ts";
import { entropyBonus } from "../losses/entropy-bonus.ts";
import { addMetrics } from "../losses/loss-metrics.ts";
import { reduceOutput } from "../losses/loss-output.ts";
import { reinforceLoss } from "../losses/policy/reinforce.ts";
import { valueLoss } from "../losses/value-loss.ts";
import type { LossRows } from "../reduce.ts";
import type { PolicyPieceInputs } from "./recipe.ts";
import type { RecipePlan } from "./recipe-plan.ts";

/** This part's share of the batch loss. The caller frees what it makes: wrap the microbatch in a `tensorScope`. */
export function recipeLoss(plan: RecipePlan, microbatch: Microbatch, denominators: Denominators): RecipeLoss {
  const corrected = correct(plan, microbatch);
  const { groupOf, trajectoryOf, rowWeights_B, lossMask_BT } = microbatch.rows;
  const counted: LossRows = {
    ...{ lossMask_BT: corrected.lossMask_BT, groupOf, trajectoryOf, counted_B: lossMask_BT.sum(1) },
    ...(rowWeights_B && { rowWeights_B }),
  };
  const parts = [
    policyTerm(plan, microbatch, corrected, counted, denominators),
    ...klTerm(plan, microbatch, counted, denominators),
    ...entropyTerm(plan, microbatch, counted, denominators),
    ...valueTerm(plan, microbatch, counted, denominators),
    ...distillationTerm(plan, microbatch, counted, denominators),
  ];
  return {
    loss: parts.map(({ loss }) => loss).reduce((sum, loss) => sum.add(loss)),
    terms: Object.fromEntries(parts.map(({ name, loss }) => [name, loss.detach()])),
    metrics: addMetrics([...parts.map(({ metrics }) => metrics), ...keptMetric(plan, microbatch, corrected)]),
  };
}

/** The value term alone, for a critic that learns apart from the policy. For recipes whose loss rejects no tokens. */
export function recipeValueLoss(
  plan: RecipePlan,
  rows: ValueRows,
  values_BT: Tensor,
  denominators: Denominators,
): RecipeLoss {
  const { groupOf, trajectoryOf, rowWeights_B, lossMask_BT } = rows;
  const counted: LossRows = {
    ...{ lossMask_BT, groupOf, trajectoryOf, counted_B: lossMask_BT.sum(1) },
    ...(rowWeights_B && { rowWeights_B }),
  };
  const [term] = valueTerm(plan, { rows, values_BT }, counted, denominators);
  if (term === undefined) throw missing(plan.type, "returns_BT", "no critic to learn from them");
  return { loss: term.loss, terms: { value: term.loss.detach() }, metrics: term.metrics };
}

/** Whether the loss compares tokens with the sampler itself, and weighs and rejects them where there is a correction. */
export function correctsInLoss({ options }: RecipePlan): boolean {
  return options.bypass !== null;
}

/** The metrics of policy and sampler in the loss, over the rows of a whole update. */
export function lossCorrectionMetrics(
  plan: RecipePlan,
  update: Pick<Microbatch, "rows" | "policyLogprobs_BT">,
): CorrectionMetrics {
  if (!correctsInLoss(plan) && update.rows.anchorLogprobs_BT !== null) return {};
  if (plan.correction !== null) return correct(plan, update).metrics;
  const { samplerLogprobs_BT, lossMask_BT } = update.rows;
  return uncorrectedMetrics({ policyLogprobs_BT: update.policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT });
}

/** The share of sampled tokens left after rejections in the loss, or after `score` if the loss rejects none. */
function keptMetric(plan: RecipePlan, { rows }: Microbatch, { lossMask_BT }: Corrected): LossMetrics[] {
  if (!correctsInLoss(plan)) return [];
  return [{ "score/kept_fraction": { sum: lossMask_BT.sum(), count: rows.numSampled_B.sum() } }];
}

interface Term {
  readonly name: LossTerm;
  readonly loss: Tensor;
  readonly metrics: LossMetrics;
}

interface Corrected {
  readonly lossMask_BT: Tensor;
  readonly weights_BT: Tensor | null;
  readonly metrics: CorrectionMetrics;
}

/**
 * Weights and mask for these rows: the ones from `score`, or in bypass mode those of the current policy. Tokens
 * rejected in bypass mode stay in the denominators, which were counted before.
 */
function correct(
  { options, correction, pieces }: RecipePlan,
  { rows, policyLogprobs_BT }: Pick<Microbatch, "rows" | "policyLogprobs_BT">,
): Corrected {
  const { samplerLogprobs_BT, lossMask_BT, weights_BT, meanWeight } = rows;
  if (options.bypass === null || correction === null) return { lossMask_BT, weights_BT, metrics: {} };
  const inputs = { policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT, ...(meanWeight && { meanWeight }) };
  const corrected = correctRollout(inputs, correction);
  const isWeighted = options.bypass.loss === "reinforce" || !pieces.policy.hasRatio;
  return isWeighted ? corrected : { ...corrected, weights_BT: null };
}

function policyTerm(
  { options, pieces }: RecipePlan,
  { rows, policyLogprobs_BT }: Microbatch,
  { weights_BT, lossMask_BT }: Corrected,
  counted: LossRows,
  denominators: Denominators,
): Term {
  const inputs: PolicyPieceInputs = {
    ...fixedInputs(rows),
    anchorLogprobs_BT: rows.anchorLogprobs_BT ?? policyLogprobs_BT.detach(),
    policyLogprobs_BT,
    lossMask_BT,
    ...(weights_BT && { weights_BT }),
  };
  const isReplaced = options.bypass?.loss === "reinforce";
  const output = isReplaced ? reinforceLoss(inputs, { importance: "none" }) : pieces.policy.loss(inputs);
  const loss = reduceOutput(output, counted, pieces.reduction, denominators);
  return { name: "policy", loss, metrics: output.metrics };
}

function fixedInputs(rows: ScoredRows) {
  const { samplerLogprobs_BT, advantages_BT, rewards_B, selected_BT, segments_BT } = rows;
  return {
    samplerLogprobs_BT,
    advantages_BT,
    rewards_B,
    ...(selected_BT && { selected_BT }),
    ...(segments_BT && { segments_BT }),
  };
}

function klTerm(
  { options, pieces }: RecipePlan,
  { rows, policyLogprobs_BT }: Microbatch,
  counted: LossRows,
  denominators: Denominators,
): Term[] {
  const { referenceLogprobs_BT } = rows;
  if (options.klLoss === null || referenceLogprobs_BT === null) return [];
  const { coefficient, estimator } = options.klLoss;
  const settings = { coefficient, estimator: parseKlEstimator(estimator), reduction: pieces.reduction };
  const loss = klLoss({ policyLogprobs_BT, referenceLogprobs_BT, ...counted }, settings, denominators);
  return [{ name: "kl", loss, metrics: {} }];
}

function entropyTerm(
  { type, options, pieces }: RecipePlan,
  { rows, entropies_BT }: Microbatch,
  counted: LossRows,
  denominators: Denominators,
): Term[] {
  if (options.entropy === null) return [];
  if (entropies_BT === undefined) throw missing(type, "entropies_BT", "an entropy bonus");
  const output = entropyBonus({ entropies_BT, lossMask_BT: counted.lossMask_BT }, rows.entropyCoefficient);
  const loss = reduceOutput(output, counted, pieces.reduction, denominators);
  return [{ name: "entropy", loss, metrics: output.metrics }];
}

function valueTerm(
  { type, pieces }: RecipePlan,
  { rows, values_BT }: { readonly rows: ValueRows; readonly values_BT?: Tensor },
  counted: LossRows,
  denominators: Denominators,
): Term[] {
  const { returns_BT, oldValues_BT } = rows;
  if (pieces.critic === undefined || returns_BT === null || oldValues_BT === null) return [];
  if (values_BT === undefined) throw missing(type, "values_BT", "a critic");
  const { coefficient, valueClip } = pieces.critic;
  const inputs = { values_BT, oldValues_BT, returns_BT, lossMask_BT: counted.lossMask_BT };
  const output = valueLoss(inputs, { valueClip });
  const loss = reduceOutput(output, counted, pieces.reduction, denominators).mul(coefficient);
  return [{ name: "value", loss, metrics: output.metrics }];
}

/** The divergence from the teachers, averaged as the recipe averages its own loss. */
function distillationTerm(
  { pieces }: RecipePlan,
  { distillation }: Microbatch,
  counted: LossRows,
  denominators: Denominators,
): Term[] {
  if (distillation === undefined) return [];
  const { divergence_BT, coefficient } = distillation;
  const output = { level: "token", loss_BT: divergence_BT.mul(coefficient), metrics: {} } as const;
  return [{ name: "distillation", loss: reduceOutput(output, counted, pieces.reduction, denominators), metrics: {} }];
}

function missing(type: string, name: string, reason: string): RerollError {
  return new RerollError(
    "MISSING_ARGUMENT",
    `${name} is missing from the microbatch: ${type} with these options has ${reason}.`,
    { type, missing: name },
  );
}
