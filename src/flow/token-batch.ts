/**
 * What a recipe takes and gives: a batch of rollouts, the same batch scored, and a part of it with the outputs of the
 * policy being trained.
 *
 * All [B, T] tensors lie over the same tokens; which of them count is in the loss mask. Nothing here is changed once it is
 * made.
 */

import { tensor } from "../torch/create.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { CorrectionMetrics, Denominators, LossMetrics } from "./batch-statistics.ts";
import type { GreedyOutcome } from "./token-sample.ts";

/** One rollout, whole: the rows of all groups, before it is cut into microbatches or spread over ranks. */
export interface TokenBatch {
  /** Log-probs under the distribution that the tokens were drawn from. */
  readonly samplerLogprobs_BT: Tensor;
  /**
   * Log-probs that the trainer recomputes before the first update. Bypass mode does without them. null: the policy of the loss itself is the
   * anchor, as in the only update of a rollout, for recipes whose scores do not read them (`Recipe.scoresAnchor`).
   */
  readonly anchorLogprobs_BT?: Tensor | null;
  readonly referenceLogprobs_BT?: Tensor;
  /** The critic's value before each token, at the time of the rollout. */
  readonly values_BT?: Tensor;
  /** The critic's value after the last token; read at the end of truncated trajectories only. */
  readonly bootstrapValues_B?: Tensor;
  /**
   * Rewards at the tokens that earned them, each counted once; the outcome of a trajectory is on its last loss token
   * (`toLastToken`).
   */
  readonly rewards_BT: Tensor;
  /** The greedy trajectory of each row's prompt. Its rewards are shaped as those of the rows are. */
  readonly greedyOf?: readonly GreedyOutcome[];
  /** True at the tokens the model wrote; false at prompts, observations and padding. */
  readonly lossMask_BT: Tensor;
  /** The group (prompt) of each row, as a whole number. */
  readonly groupOf: readonly number[];
  /**
   * The trajectory of each row, as a whole number that no other trajectory of the batch has. A trajectory that had to be
   * forked has several rows; baselines, filters and whatever else is taken over samples count it once.
   */
  readonly trajectoryOf: readonly number[];
  /** The place of each row in its trajectory: any increasing numbers, such as its first turn. */
  readonly turnOf: readonly number[];
  /** The state that each row started from, as a hash or text; for recipes over the steps of agents. */
  readonly stateOf?: readonly GroupKey[];
  /** The domain of each row's prompt; for recipes that normalize rewards. */
  readonly domainOf?: readonly string[];
  /** Per row, whether a limit ended its trajectory. */
  readonly isTruncated: readonly boolean[];
  /** The weight of each row in every term of the loss: the importance weight of a replay. Default 1. */
  readonly rowWeights_B?: Tensor;
  readonly versions?: SampledVersions;
  /** What the teachers of a run with distillation say. */
  readonly teaching?: Teaching;
}

/** How a batch learns from teachers. */
export interface Teaching {
  /** Log-probs to make advantages of; NaN where nobody measured the token. null: the loss compares whole distributions instead. */
  readonly teacherLogprobs: TeacherLogprobs | null;
  /** The weight of log teacher / policy beside the advantages of rewards. */
  readonly coefficient: number;
  /** Whether rewards count too. */
  readonly keepsRewards: boolean;
}

/**
 * Log-probs of the sampled tokens under a teacher: other weights, or the same ones in another context.
 *
 * On purpose no tensor: importance weights and ratios are taken between policies that read the same tokens, and nothing that takes
 * them accepts this.
 */
export interface TeacherLogprobs {
  readonly ofTeacher_BT: Tensor;
}

/** Which weights sampled the tokens. */
export interface SampledVersions {
  /** The version of the weights that drew each token, as int64. Read at loss tokens. */
  readonly versions_BT: Tensor;
  /** The version being trained. */
  readonly current: number;
}

/** What rows are grouped by: a prompt, a tag, the hash of a state. Equal keys make one group. */
export type GroupKey = number | string;

/** Scored rows, all of a batch or some: constants that the loss reads. */
export interface ScoredRows {
  readonly samplerLogprobs_BT: Tensor;
  /** Log-probs that the ratio is taken against; the sampler's in bypass mode. null: those of the policy, held fixed. */
  readonly anchorLogprobs_BT: Tensor | null;
  readonly referenceLogprobs_BT: Tensor | null;
  readonly advantages_BT: Tensor;
  /** The critic's targets, and its predictions at the time of the rollout. */
  readonly returns_BT: Tensor | null;
  readonly oldValues_BT: Tensor | null;
  /** Importance weights of the correction. */
  readonly weights_BT: Tensor | null;
  /** The loss mask without the tokens that `score` has masked or rejected. */
  readonly lossMask_BT: Tensor;
  /** Number of loss tokens in each row before `score` masked any. */
  readonly numSampled_B: Tensor;
  readonly rowWeights_B: Tensor | null;
  /** What the trajectory of each row earned, before any shaping. */
  readonly rewards_B: Tensor;
  /** Tokens that the policy loss treats apart, chosen over the whole batch. */
  readonly selected_BT: Tensor | null;
  /** The turn of each token, numbered within its row. */
  readonly segments_BT: Tensor | null;
  readonly groupOf: readonly number[];
  readonly trajectoryOf: readonly number[];
  /** The mean importance weight of the whole batch, for self-normalization in bypass mode. */
  readonly meanWeight: Tensor | null;
  /** The coefficient of the entropy bonus in this step. */
  readonly entropyCoefficient: number;
}

/** What a critic learns from. */
export type ValueRows = Pick<
  ScoredRows,
  "returns_BT" | "oldValues_BT" | "lossMask_BT" | "rowWeights_B" | "groupOf" | "trajectoryOf"
>;

export interface ScoredBatch extends ScoredRows {
  /** Denominators of the whole batch, with which every part of it is reduced. */
  readonly denominators: Denominators;
  /** Tensors without dimensions by name; `readCorrectionMetrics` reads them in one go. */
  readonly metrics: CorrectionMetrics;
}

/** Some rows, and what the weights being trained say about them. */
export interface Microbatch {
  readonly rows: ScoredRows;
  readonly policyLogprobs_BT: Tensor;
  /** The entropy of the next-token distribution, in nats; for recipes with an entropy bonus. */
  readonly entropies_BT?: Tensor;
  /** The critic's predictions; for recipes with a critic. */
  readonly values_BT?: Tensor;
  /** The divergence from the teachers at each token, 0 where there is none, and its weight in the loss. */
  readonly distillation?: { readonly divergence_BT: Tensor; readonly coefficient: number };
}

/** A part's share of the loss of its batch. The shares of all parts add up to it. */
export interface RecipeLoss {
  readonly loss: Tensor;
  /** The summands of `loss`, without gradient. */
  readonly terms: Readonly<Partial<Record<LossTerm, Tensor>>>;
  /** Sums and counts; `addMetrics` joins those of several parts. */
  readonly metrics: LossMetrics;
}

export type LossTerm = "policy" | "kl" | "entropy" | "value" | "distillation";

/** These rows of a scored batch, in this order. */
export function selectRows(scored: ScoredRows, rows: readonly number[]): ScoredRows {
  const index_B = tensor([...rows], { dtype: "int64", device: scored.lossMask_BT.device });
  const pick = (values: Tensor): Tensor => values.indexSelect(0, index_B);
  const pickOrNull = (values: Tensor | null): Tensor | null => values && pick(values);
  return {
    samplerLogprobs_BT: pick(scored.samplerLogprobs_BT),
    anchorLogprobs_BT: pickOrNull(scored.anchorLogprobs_BT),
    referenceLogprobs_BT: pickOrNull(scored.referenceLogprobs_BT),
    advantages_BT: pick(scored.advantages_BT),
    returns_BT: pickOrNull(scored.returns_BT),
    oldValues_BT: pickOrNull(scored.oldValues_BT),
    weights_BT: pickOrNull(scored.weights_BT),
    lossMask_BT: pick(scored.lossMask_BT),
    numSampled_B: pick(scored.numSampled_B),
    rowWeights_B: pickOrNull(scored.rowWeights_B),
    rewards_B: pick(scored.rewards_B),
    selected_BT: pickOrNull(scored.selected_BT),
    segments_BT: pickOrNull(scored.segments_BT),
    groupOf: rows.map((row) => scored.groupOf[row]!),
    trajectoryOf: rows.map((row) => scored.trajectoryOf[row]!),
    meanWeight: scored.meanWeight,
    entropyCoefficient: scored.entropyCoefficient,
  };
}
