/**
 * Everything between a batch of trajectories and a gradient: pieces, and the recipes that put them together.
 *
 * The reference is docs/reference/algorithms.md, the guide docs/guides/algorithms.md.
 */

export type { CorrectionMetrics, Denominators, LossMetrics, MetricSum } from "../flow/batch-statistics.ts";
export {
  type Microbatch,
  type RecipeLoss,
  type SampledVersions,
  type ScoredBatch,
  type ScoredRows,
  selectRows,
  type TokenBatch,
} from "../flow/token-batch.ts";
export { type AgentAdvantages, type AgentBaselines, agentBaseline } from "./advantages/agent-baseline.ts";
export { clip } from "./advantages/clip.ts";
export {
  type DiscountedReturnsOptions,
  discountedReturns,
  type RewardsOutsideMask,
} from "./advantages/discounted-returns.ts";
export { type GaeInputs, type GaeOptions, gae, type TokenAdvantages } from "./advantages/gae.ts";
export { type GigpoAdvantages, type GigpoInputs, type GigpoOptions, gigpo } from "./advantages/gigpo.ts";
export { type GpgOptions, gpg } from "./advantages/gpg.ts";
export { type GroupRelativeOptions, groupRelative } from "./advantages/group-relative.ts";
export { leaveOneOut } from "./advantages/leave-one-out.ts";
export { maxRl } from "./advantages/max-rl.ts";
export { normalizeRewards } from "./advantages/normalize-rewards.ts";
export { optimalBaseline } from "./advantages/opo.ts";
export { type PassAtKOptions, passAtK } from "./advantages/pass-at-k.ts";
export { reinforcePlusPlus, reinforcePlusPlusBaseline } from "./advantages/reinforce-plus-plus.ts";
export { remax } from "./advantages/remax.ts";
export { sumRewards, toLastToken, toTokens } from "./advantages/token-values.ts";
export { readCorrectionMetrics } from "./corrections/correction-metrics.ts";
export {
  type ImportanceOptions,
  type RejectionName,
  type RolloutCorrection,
  type RolloutCorrectionOptions,
  resolveCorrection,
} from "./corrections/correction-options.ts";
export { importanceWeights } from "./corrections/importance-weights.ts";
export { offPolicyMetrics } from "./corrections/off-policy-metrics.ts";
export { offPolicySequenceMask } from "./corrections/off-policy-sequence-mask.ts";
export { type OutlierMaskOptions, outlierMask } from "./corrections/outlier-mask.ts";
export { parseVerlOptions, parseVerlOverrides, type VerlCorrection } from "./corrections/parse-verl-options.ts";
export { rejectTokens } from "./corrections/rejection.ts";
export { type CorrectedRollout, correctRollout } from "./corrections/rollout-correction.ts";
export { type StalenessMaskOptions, stalenessMask } from "./corrections/staleness-mask.ts";
export { type KlController, updateKlController } from "./kl/controller.ts";
export { type KlEstimator, type KlForm, klEstimate, parseKlEstimator } from "./kl/estimate.ts";
export { type KlLossOptions, klLoss } from "./kl/loss.ts";
export { measureKl, penalizeRewards } from "./kl/penalty.ts";
export { crossEntropyLoss } from "./losses/cross-entropy.ts";
export { contextDistillationLoss } from "./losses/distillation/context-distillation.ts";
export { type DistillationOptions, distillationLoss } from "./losses/distillation/distillation.ts";
export { distillationAdvantages, onPolicyDistillationLoss } from "./losses/distillation/on-policy-distillation.ts";
export { topDistillationLoss } from "./losses/distillation/top-distillation.ts";
export { entropyBonus } from "./losses/entropy-bonus.ts";
export { type EntropyController, entropyCoefficient, updateEntropyController } from "./losses/entropy-controller.ts";
export { addMetrics, readMetrics } from "./losses/loss-metrics.ts";
export { type LossOutput, reduceOutput, type SequenceLoss, type TokenLoss } from "./losses/loss-output.ts";
export { bypassLoss } from "./losses/policy/bypass.ts";
export { cispoLoss } from "./losses/policy/cispo.ts";
export { clipCovLoss, clipCovSelection } from "./losses/policy/clip-cov.ts";
export { decoupledPpoLoss } from "./losses/policy/decoupled-ppo.ts";
export { dppoLoss } from "./losses/policy/dppo.ts";
export { gmpoLoss } from "./losses/policy/gmpo.ts";
export { gspoLoss } from "./losses/policy/gspo.ts";
export { klCovLoss, klCovSelection } from "./losses/policy/kl-cov.ts";
export type { PolicyLoss, PolicyLossInputs } from "./losses/policy/policy-loss.ts";
export { type PpoClipOptions, ppoClipLoss } from "./losses/policy/ppo-clip.ts";
export { reinforceLoss } from "./losses/policy/reinforce.ts";
export { sapoLoss } from "./losses/policy/sapo.ts";
export { segmentClipLoss } from "./losses/policy/segment-clip.ts";
export { squaredPenaltyLoss } from "./losses/policy/squared-penalty.ts";
export { toprLoss } from "./losses/policy/topr.ts";
export { truncatedIsLoss } from "./losses/policy/truncated-is.ts";
export { bradleyTerryLoss } from "./losses/preference/bradley-terry.ts";
export { type DpoOptions, dpoLoss } from "./losses/preference/dpo.ts";
export { ktoLoss } from "./losses/preference/kto.ts";
export { orpoLoss } from "./losses/preference/orpo.ts";
export { scoreRegressionLoss } from "./losses/preference/score-regression.ts";
export { sequenceLogprobs } from "./losses/preference/sequence-logprobs.ts";
export { simpoLoss } from "./losses/preference/simpo.ts";
export { type ValueLossOptions, valueLoss } from "./losses/value-loss.ts";
export { defineRecipe, type RecipeDefinition } from "./recipe-runner/define-recipe.ts";
export type { Measured, PolicyPiece, Recipe, RecipePieces, RecipeState } from "./recipe-runner/recipe.ts";
export { recipeOptions } from "./recipe-runner/recipe-options.ts";
export { buildRecipe, type RecipeChoice, type RecipeName, recipeJsonSchema, recipes } from "./recipes/table.ts";
export { type CorrectionChoice, fromVerl } from "./recipes/verl-correction.ts";
export {
  globalDenominators,
  type LossRows,
  type Reduction,
  reduceLoss,
  reduceSequenceLoss,
} from "./reduce.ts";
export { isLearnable } from "./shaping/difficulty-filter.ts";
export { softOverlongPenalty } from "./shaping/overlong.ts";
export { keepRows } from "./shaping/row-filter.ts";
export { maskTruncated } from "./shaping/truncated-mask.ts";
export { hasVariance } from "./shaping/zero-variance-filter.ts";
export { whiten } from "./whiten.ts";
