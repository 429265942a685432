/**
 * Turns a rollout into a scored batch: everything that must see the whole of it.
 *
 * The order is verl's: masks, reward shaping, KL as a reward, rollout correction, advantages over what is left, what
 * teachers add to them, and last the denominators. Rewards, filters on them, advantages and returns are those of whole trajectories (M in shapes), also of
 * forked ones; corrections look at tokens and sequences, and a sequence is a row. The result holds constants; nothing in it
 * has a gradient.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CorrectionMetrics } from "../../flow/batch-statistics.ts";
import type { ScoredBatch, Teaching, TokenBatch } from "../../flow/token-batch.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { clip } from "../advantages/clip.ts";
import { type JoinedRows, joinRows } from "../advantages/join-rows.ts";
import { sumRewards, toLastToken } from "../advantages/token-values.ts";
import { offPolicySequenceMask } from "../corrections/off-policy-sequence-mask.ts";
import { outlierMask } from "../corrections/outlier-mask.ts";
import { type CorrectedRollout, correctRollout, uncorrectedMetrics } from "../corrections/rollout-correction.ts";
import { stalenessMask } from "../corrections/staleness-mask.ts";
import { expectBatch, expectGroups } from "../expect-batch.ts";
import { klEstimate, parseKlEstimator } from "../kl/estimate.ts";
import { penalizeRewards } from "../kl/penalty.ts";
import { distillationAdvantages } from "../losses/distillation/on-policy-distillation.ts";
import { entropyCoefficient } from "../losses/entropy-controller.ts";
import { liveTokens } from "../losses/live-tokens.ts";
import { runsOf } from "../losses/policy/segment-clip.ts";
import { maskedMean, maskedVariance } from "../masked.ts";
import { globalDenominators } from "../reduce.ts";
import { greedyReward } from "../shaping/greedy-reward.ts";
import { softOverlongPenalty } from "../shaping/overlong.ts";
import { rewardScale } from "../shaping/reward-moments.ts";
import { keepRows } from "../shaping/row-filter.ts";
import { maskTruncated } from "../shaping/truncated-mask.ts";
import { hasVariance } from "../shaping/zero-variance-filter.ts";
import { whiten } from "../whiten.ts";
import type { BatchInput, Estimate, RecipeState } from "./recipe.ts";
import type { RecipePlan } from "./recipe-plan.ts";

/** Scores a whole rollout. */
export function scoreBatch(plan: RecipePlan, batch: TokenBatch, state: RecipeState): ScoredBatch {
  expectInputs(plan, batch);
  return noGrad(() => tensorScope(() => score(plan, batch, state)));
}

function score(plan: RecipePlan, batch: TokenBatch, state: RecipeState): ScoredBatch {
  const { pieces } = plan;
  const { samplerLogprobs_BT, referenceLogprobs_BT, values_BT, groupOf, trajectoryOf } = batch;
  const joined = joinRows(batch);
  const rawRewards_M = sumRewards(joined.join(batch.rewards_BT));
  const masked_BT = maskRows(plan, batch, joined, rawRewards_M);
  const shaped_BT = shapeRewards(plan, { batch, joined }, normalizeRewards(plan, { batch, joined }, state));
  const { rewards_BT, metrics: klMetrics } = penalize(plan, { batch, joined }, shaped_BT, masked_BT, state);
  const { weights_BT, lossMask_BT, meanWeight, metrics: correctionMetrics } = correct(plan, batch, masked_BT);
  const greedyRewards_B = shapeGreedy(plan, batch, state);
  const estimate = estimateAdvantages(plan, { batch, joined }, { rewards_BT, lossMask_BT, greedyRewards_B });
  const anchorLogprobs_BT = anchorOf(plan, batch);
  const taught = teach(batch.teaching, { anchorLogprobs_BT, lossMask_BT });
  const advantages_BT = finishAdvantages(plan, estimate.advantages_BT, lossMask_BT, taught);
  const kept_BT = dropSequences(plan, batch, advantages_BT, lossMask_BT);
  return {
    samplerLogprobs_BT,
    anchorLogprobs_BT,
    referenceLogprobs_BT: referenceLogprobs_BT ?? null,
    advantages_BT,
    returns_BT: estimate.returns_BT ?? null,
    oldValues_BT: values_BT ?? null,
    weights_BT,
    lossMask_BT: kept_BT,
    numSampled_B: batch.lossMask_BT.sum(1),
    rowWeights_B: batch.rowWeights_B ?? null,
    rewards_B: joined.spread(rawRewards_M),
    selected_BT: selectTokens(plan, { anchorLogprobs_BT, advantages_BT, lossMask_BT: kept_BT }),
    segments_BT: pieces.policy.usesSegments ? runsOf(batch.lossMask_BT) : null,
    groupOf,
    trajectoryOf,
    meanWeight,
    entropyCoefficient: state.entropy === null ? 0 : entropyCoefficient(state.entropy),
    denominators: globalDenominators(kept_BT, groupOf, trajectoryOf),
    metrics: {
      "score/reward": rawRewards_M.mean(),
      "score/shaped_reward": sumRewards(joined.join(rewards_BT)).mean(),
      "score/advantage": maskedMean(advantages_BT, kept_BT),
      "score/advantage_std": maskedVariance(advantages_BT, kept_BT).sqrt(),
      "score/kept_fraction": maskedMean(kept_BT.to(advantages_BT.dtype), batch.lossMask_BT),
      ...criticMetrics(estimate, batch, kept_BT),
      ...klMetrics,
      ...correctionMetrics,
      ...taught.metrics,
    },
  };
}

function selectTokens(
  { pieces: { policy } }: RecipePlan,
  { anchorLogprobs_BT, ...others }: Pick<ScoredBatch, "anchorLogprobs_BT" | "advantages_BT" | "lossMask_BT">,
): Tensor | null {
  if (policy.select === undefined || anchorLogprobs_BT === null) return null;
  return policy.select({ policyLogprobs_BT: anchorLogprobs_BT, anchorLogprobs_BT, ...others });
}

/** How much of what trajectories earned the critic knew beforehand. Without differences there is nothing to know: NaN. */
function criticMetrics({ returns_BT }: Estimate, { values_BT }: TokenBatch, kept_BT: Tensor): Record<string, Tensor> {
  if (returns_BT === undefined || values_BT === undefined) return {};
  const all = maskedVariance(returns_BT, kept_BT);
  const left = maskedVariance(returns_BT.sub(values_BT), kept_BT);
  return { "value/explained_variance": all.sub(left).div(all).maskedFill(all.eq(0), Number.NaN) };
}

/** The log-probs that the ratio is taken against; null where those are the policy's own. */
function anchorOf({ options }: RecipePlan, { anchorLogprobs_BT, samplerLogprobs_BT }: TokenBatch): Tensor | null {
  return options.bypass === null && anchorLogprobs_BT !== undefined ? anchorLogprobs_BT : samplerLogprobs_BT;
}

/** The rows of a batch, and the map to their trajectories. */
interface Rows {
  readonly batch: TokenBatch;
  readonly joined: JoinedRows;
}

interface ShapedRewards {
  readonly rewards_BT: Tensor;
  readonly lossMask_BT: Tensor;
  readonly greedyRewards_B: Tensor | null;
}

/** Advantages and returns of all rows, estimated over trajectories or over steps, as the recipe asks. */
function estimateAdvantages({ pieces }: RecipePlan, rows: Rows, shaped: ShapedRewards): Estimate {
  const { groupOf, isTruncated, trajectoryOf, turnOf, stateOf, values_BT, bootstrapValues_B } = rows.batch;
  const { rewards_BT, lossMask_BT, greedyRewards_B } = shaped;
  if (pieces.estimatesOver === "steps") {
    return pieces.estimate({
      ...{ groupOf, isTruncated, rewards_BT, rewards_B: sumRewards(rewards_BT), lossMask_BT },
      ...(stateOf && { steps: { trajectoryOf, turnOf, stateOf } }),
    });
  }
  const { join, split, last, lastOf } = rows.joined;
  const rewards_MT = join(rewards_BT);
  const estimate = pieces.estimate({
    groupOf: lastOf(groupOf),
    isTruncated: lastOf(isTruncated),
    rewards_BT: rewards_MT,
    rewards_B: sumRewards(rewards_MT),
    lossMask_BT: join(lossMask_BT),
    ...(values_BT && { values_BT: join(values_BT) }),
    ...(bootstrapValues_B && { bootstrapValues_B: last(bootstrapValues_B) }),
    ...(greedyRewards_B && { greedyRewards_B: last(greedyRewards_B) }),
  });
  const { advantages_BT, returns_BT } = estimate;
  return { advantages_BT: split(advantages_BT), ...(returns_BT && { returns_BT: split(returns_BT) }) };
}

/** Drops rows and tokens for reasons that have nothing to do with their advantage. */
function maskRows({ options }: RecipePlan, batch: TokenBatch, joined: JoinedRows, rewards_M: Tensor): Tensor {
  const { masksTruncated, dropsFlatGroups, staleness, outliers } = options;
  const { samplerLogprobs_BT, anchorLogprobs_BT, versions, groupOf, isTruncated } = batch;
  let mask_BT = batch.lossMask_BT;
  if (masksTruncated) mask_BT = maskTruncated(mask_BT, isTruncated);
  if (dropsFlatGroups) mask_BT = keepRows(mask_BT, joined.spreadOf(hasVariance(rewards_M, joined.lastOf(groupOf))));
  if (staleness !== null && versions !== undefined) {
    const bounds = { currentVersion: versions.current, maxStaleness: staleness.max, scope: staleness.scope };
    mask_BT = stalenessMask({ versions_BT: versions.versions_BT, lossMask_BT: mask_BT }, bounds);
  }
  if (outliers !== null && anchorLogprobs_BT) {
    const inputs = { policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT: mask_BT };
    mask_BT = outlierMask(inputs, outliers);
  }
  return mask_BT;
}

/**
 * The rewards of each trajectory on the scale of its domain: what its turns earned divided by the deviation, and the mean taken off
 * where its outcome is paid.
 */
function normalizeRewards({ options }: RecipePlan, { batch, joined }: Rows, state: RecipeState): Tensor {
  const { rewardNormalization } = options;
  const { rewards_BT, domainOf, lossMask_BT } = batch;
  const moments = state.rewards;
  if (rewardNormalization === null || moments === null || domainOf === undefined) return rewards_BT;
  const { dtype, device } = rewards_BT;
  const scales = joined.lastOf(domainOf).map((domain) => rewardScale(moments, domain));
  const numbers = (values: number[]) => tensor(values, { dtype, device });
  const deviation_M = numbers(scales.map(({ deviation }) => deviation));
  const shift_M = numbers(
    scales.map(({ mean, deviation }) => (rewardNormalization.isCentered ? -mean / deviation : 0)),
  );
  const shift_BT = joined.split(toLastToken(shift_M, joined.join(lossMask_BT)));
  return rewards_BT.div(joined.spread(deviation_M).unsqueeze(1)).add(shift_BT);
}

function shapeRewards({ options }: RecipePlan, { batch, joined }: Rows, rewards_BT: Tensor): Tensor {
  const { overlong, truncatedPenalty, rewardClip } = options;
  const { lossMask_BT } = batch;
  const { dtype, device } = rewards_BT;
  let shaped_BT = rewards_BT;
  const addToLast = (values: number[], lossMask_MT: Tensor) => {
    shaped_BT = shaped_BT.add(joined.split(toLastToken(tensor(values, { dtype, device }), lossMask_MT)));
  };
  if (overlong !== null) {
    const lossMask_MT = joined.join(lossMask_BT);
    const lengths = lossMask_MT.sum(1).toArray();
    addToLast(
      lengths.map((length) => softOverlongPenalty(length, overlong)),
      lossMask_MT,
    );
  }
  if (truncatedPenalty !== null) {
    const isTruncated = joined.lastOf(batch.isTruncated);
    addToLast(
      isTruncated.map((isCut) => (isCut ? -truncatedPenalty : 0)),
      joined.join(lossMask_BT),
    );
  }
  return rewardClip === null ? shaped_BT : clip(shaped_BT, rewardClip);
}

/** What the greedy trajectories earned, after all that happens to the rewards of samples but KL; null for recipes without them. */
function shapeGreedy({ options }: RecipePlan, batch: TokenBatch, state: RecipeState): Tensor | null {
  const { greedyOf, domainOf, rewards_BT } = batch;
  if (greedyOf === undefined) return null;
  const { dtype, device } = rewards_BT;
  const moments = options.rewardNormalization === null ? null : state.rewards;
  const scaleOf = (row: number) =>
    moments === null || domainOf === undefined ? { mean: 0, deviation: 1 } : rewardScale(moments, domainOf[row]!);
  const rewards = greedyOf.map((outcome, row) => greedyReward(outcome, scaleOf(row), options));
  return tensor(rewards, { dtype, device });
}

function penalize(
  plan: RecipePlan,
  { batch, joined }: Rows,
  rewards_BT: Tensor,
  lossMask_BT: Tensor,
  state: RecipeState,
): { rewards_BT: Tensor; metrics: CorrectionMetrics } {
  const { klReward } = plan.options;
  const { referenceLogprobs_BT } = batch;
  const anchor_BT = anchorOf(plan, batch);
  if (klReward === null || state.klReward === null || referenceLogprobs_BT === undefined || anchor_BT === null) {
    return { rewards_BT, metrics: {} };
  }
  const kl_BT = klEstimate(anchor_BT, referenceLogprobs_BT, parseKlEstimator(klReward.estimator));
  return {
    rewards_BT: penalizeRewards(rewards_BT, kl_BT, lossMask_BT, state.klReward.coefficient),
    metrics: { "score/reference_kl": maskedMean(joined.join(kl_BT), joined.join(lossMask_BT), 1).mean() },
  };
}

interface ScoreCorrection extends CorrectedRollout {
  readonly meanWeight: Tensor | null;
}

/**
 * The correction of anchor / sampler, or where there is none how far the two are apart. In bypass mode both belong to the loss;
 * only the mean weight is taken here.
 */
function correct({ options, correction }: RecipePlan, batch: TokenBatch, mask_BT: Tensor): ScoreCorrection {
  const { anchorLogprobs_BT, samplerLogprobs_BT } = batch;
  const untouched = { weights_BT: null, lossMask_BT: mask_BT, meanWeight: null, metrics: {} };
  const isLater = options.bypass !== null && !correction?.importance?.isSelfNormalized;
  if (!anchorLogprobs_BT || isLater) return untouched;
  const inputs = { policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, lossMask_BT: mask_BT };
  if (correction === null) return { ...untouched, metrics: uncorrectedMetrics(inputs) };
  const corrected = correctRollout(inputs, correction);
  if (options.bypass === null) return { ...corrected, meanWeight: null };
  return { ...untouched, meanWeight: corrected.metrics["rollout_corr/rollout_is_batch_norm_factor"] ?? null };
}

/** What teachers make of the advantages: nothing, or a summand in place of those of rewards or beside them. */
interface Taught {
  readonly advantages_BT: Tensor | null;
  readonly keepsRewards: boolean;
  readonly metrics: CorrectionMetrics;
}

function teach(
  teaching: Teaching | undefined,
  { anchorLogprobs_BT, lossMask_BT }: Pick<ScoredBatch, "anchorLogprobs_BT" | "lossMask_BT">,
): Taught {
  const { teacherLogprobs = null, coefficient = 0, keepsRewards = true } = teaching ?? {};
  if (teacherLogprobs === null || anchorLogprobs_BT === null) return { advantages_BT: null, keepsRewards, metrics: {} };
  const { ofTeacher_BT } = teacherLogprobs;
  const inputs = { policyLogprobs_BT: anchorLogprobs_BT, teacherLogprobs_BT: ofTeacher_BT, lossMask_BT };
  const measured_BT = liveTokens(lossMask_BT, [ofTeacher_BT]);
  return {
    // A coefficient of 0 only measures: the numbers of the run are those without a teacher.
    advantages_BT: coefficient === 0 ? null : distillationAdvantages(inputs, coefficient),
    keepsRewards,
    metrics: { "distillation/reverse_kl": maskedMean(distillationAdvantages(inputs, -1), measured_BT) },
  };
}

/** Scaled by their own spread, then joined by what teachers add, then clipped. */
function finishAdvantages({ options }: RecipePlan, estimated_BT: Tensor, lossMask_BT: Tensor, taught: Taught): Tensor {
  const { whitensAdvantages, advantageClip } = options;
  const scaled_BT = whitensAdvantages ? whiten(estimated_BT, lossMask_BT) : estimated_BT;
  const rewarded_BT = taught.keepsRewards ? scaled_BT : scaled_BT.mul(0);
  const joined_BT = taught.advantages_BT === null ? rewarded_BT : rewarded_BT.add(taught.advantages_BT);
  return advantageClip === null ? joined_BT : clip(joined_BT, advantageClip);
}

function dropSequences({ options }: RecipePlan, batch: TokenBatch, advantages_BT: Tensor, lossMask_BT: Tensor): Tensor {
  const { anchorLogprobs_BT, samplerLogprobs_BT } = batch;
  if (options.offPolicySequences === null || !anchorLogprobs_BT) return lossMask_BT;
  const inputs = { policyLogprobs_BT: anchorLogprobs_BT, samplerLogprobs_BT, advantages_BT, lossMask_BT };
  return offPolicySequenceMask(inputs, options.offPolicySequences);
}

const MEANING: Readonly<Record<BatchInput, string>> = {
  anchorLogprobs_BT: "the trainer's log-probs of the sampled tokens before the first update",
  referenceLogprobs_BT: "the log-probs of the frozen reference policy",
  values_BT: "the critic's value before each token",
  bootstrapValues_B: "the critic's value after the last token of truncated rows",
  greedyOf: "the reward, the length and the end of the greedy reply to the prompt of each row",
  domainOf: "the domain of each row's prompt",
  versions: "the version that sampled each token",
  stateOf: "the state that each row started from",
};

function expectInputs({ type, needs, scoresAnchor }: RecipePlan, batch: TokenBatch): void {
  const isScored = scoresAnchor || batch.teaching?.teacherLogprobs;
  const missing = needs.find((name) => batch[name] === undefined || (isScored && batch[name] === null));
  if (missing !== undefined) {
    throw new RerollError(
      "MISSING_ARGUMENT",
      `${missing} is missing from the batch: ${type} with these options needs ${MEANING[missing]}.`,
      { type, missing },
    );
  }
  const { samplerLogprobs_BT, anchorLogprobs_BT, referenceLogprobs_BT, values_BT, rewards_BT } = batch;
  expectBatch(batch.lossMask_BT, {
    samplerLogprobs_BT,
    rewards_BT,
    ...(anchorLogprobs_BT && { anchorLogprobs_BT }),
    ...(referenceLogprobs_BT && { referenceLogprobs_BT }),
    ...(values_BT && { values_BT }),
  });
  const numRows = batch.lossMask_BT.size(0);
  expectGroups("groupOf", batch.groupOf, numRows);
  expectGroups("trajectoryOf", batch.trajectoryOf, numRows);
  expectGroups("turnOf", batch.turnOf, numRows);
  if (batch.isTruncated.length === numRows) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `isTruncated has ${batch.isTruncated.length} entries for ${numRows} rows. It must have one per row.`,
  );
}
