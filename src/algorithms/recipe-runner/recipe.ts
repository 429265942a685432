/**
 * What a recipe is: an algorithm, put together from pieces, with its options settled.
 *
 * `score` runs once on the whole rollout and does everything that needs to see all of it; `loss` runs on any part of
 * the scored batch. Both are pure: what changes over a run is in the state, which the caller keeps.
 */

import type { CorrectionMetrics, Denominators } from "../../flow/batch-statistics.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { Microbatch, RecipeLoss, ScoredBatch, TokenBatch, ValueRows } from "../../flow/token-batch.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { KlController } from "../kl/controller.ts";
import type { EntropyController } from "../losses/entropy-controller.ts";
import type { LossOutput } from "../losses/loss-output.ts";
import type { PolicyLossInputs } from "../losses/policy/policy-loss.ts";
import type { ValueLossOptions } from "../losses/value-loss.ts";
import type { Reduction } from "../reduce.ts";
import type { EarnedReward, RewardMomentsByDomain } from "../shaping/reward-moments.ts";

export interface Recipe {
  readonly type: string;
  /** Inputs that the batch must hold besides the fields it always has. */
  readonly needs: readonly BatchInput[];
  /** Whether a microbatch must hold `entropies_BT`. */
  readonly needsEntropies: boolean;
  /** Whether a microbatch must hold `values_BT`. */
  readonly hasCritic: boolean;
  /**
   * Whether the loss corrects for the weights that sampled, however old they are: by importance weights, or by leaving
   * out tokens they disagree about. A clip range around the sampler is not such a correction.
   */
  readonly correctsSampler: boolean;
  /**
   * Whether `score` makes anything of the anchor's log-probs but hand them on: weights, masks or rewards. Where it does not, and a rollout is one
   * update, the policy can be its own anchor, and need not be measured before.
   */
  readonly scoresAnchor: boolean;
  /** Passes over each rollout. */
  readonly numEpochs: number;
  readonly initialState: RecipeState;
  /** Rewards, corrections, advantages and denominators of a whole rollout. Default state: the initial one. */
  readonly score: (batch: TokenBatch, state?: RecipeState) => ScoredBatch;
  /** The share of some rows in the loss of their batch, whose denominators are passed in. */
  readonly loss: (microbatch: Microbatch, denominators: Denominators) => RecipeLoss;
  /** The value term of `loss` alone, for a critic that learns apart from the policy. Not in bypass mode, where the policy says which tokens count. */
  readonly valueLoss: (rows: ValueRows, values_BT: Tensor, denominators: Denominators) => RecipeLoss;
  /**
   * Whether the loss compares tokens with the policy of that moment, and weighs and rejects them by it where there is a
   * correction: bypass mode.
   */
  readonly correctsInLoss: boolean;
  /**
   * How far the policy was from the sampler and what the correction did, from all rows of an update and what the policy said of
   * them: extremes and spreads of parts do not add up. Empty where that was found when they were scored.
   */
  readonly correctionMetrics: (update: Pick<Microbatch, "rows" | "policyLogprobs_BT">) => CorrectionMetrics;
  /** The state with what new trajectories earned, for the batch that holds them and all after it. Call it before `score`. */
  readonly observe: (state: RecipeState, rewards: readonly EarnedReward[]) => RecipeState;
  /** The state for the next rollout. */
  readonly advance: (state: RecipeState, measured: Measured) => RecipeState;
  /**
   * The state to go on with after a restart: what was learned on the way is kept, and options that have changed since hold from now on.
   */
  readonly resume: (saved: RecipeState) => RecipeState;
  /** The coefficients and scales that a batch is scored with. */
  readonly stateMetrics: (state: RecipeState) => Metrics;
}

export type BatchInput =
  | "anchorLogprobs_BT"
  | "referenceLogprobs_BT"
  | "values_BT"
  | "bootstrapValues_B"
  | "greedyOf"
  | "domainOf"
  | "versions"
  | "stateOf";

/** The state that changes from step to step. Plain data, so that a checkpoint can hold it. */
export interface RecipeState {
  readonly klReward: KlController | null;
  readonly entropy: EntropyController | null;
  /** What rewards are normalized by. */
  readonly rewards: RewardMomentsByDomain | null;
}

/** Measurements that steer the controllers. */
export interface Measured {
  /** `score/reference_kl` of the rollout. Read if KL is part of the reward. */
  readonly referenceKl?: number;
  /** `policy/entropy` of the step. Read if there is an entropy bonus. */
  readonly entropy?: number;
  /** Trajectories of the rollout: the unit of the KL controller's horizon. */
  readonly numTrajectories: number;
}

/** The pieces of an algorithm. Rewards, corrections, KL and entropy are common to all: see score-batch.ts. */
export interface RecipePieces {
  readonly estimate: Estimator;
  /**
   * What the estimator sees as a row: a whole trajectory, its rows joined in the order of turns, so that forks change
   * nothing (the default), or each row by itself, as a step of an agent.
   */
  readonly estimatesOver?: "trajectories" | "steps";
  readonly policy: PolicyPiece;
  readonly reduction: Reduction;
  /** Only for recipes that train values. */
  readonly critic?: CriticPiece;
  /** Inputs that the estimator reads. */
  readonly needs?: readonly BatchInput[];
}

/** Advantages of a whole batch. */
export type Estimator = (inputs: EstimateInputs) => Estimate;

/** What estimators read. B counts trajectories, or steps: see `RecipePieces.estimatesOver`. */
export interface EstimateInputs
  extends Pick<TokenBatch, "groupOf" | "isTruncated" | "values_BT" | "bootstrapValues_B"> {
  /** Rewards after shaping and, if there is one, the KL penalty. */
  readonly rewards_BT: Tensor;
  /** Sum of the rewards of a trajectory or step. */
  readonly rewards_B: Tensor;
  /** The loss mask without masked and rejected tokens. */
  readonly lossMask_BT: Tensor;
  /** What the greedy trajectory of the prompt earned, shaped as `rewards_BT`; KL is not part of it. */
  readonly greedyRewards_B?: Tensor;
  /** For estimators over steps. */
  readonly steps?: Required<Pick<TokenBatch, "trajectoryOf" | "turnOf" | "stateOf">>;
}

export interface Estimate {
  readonly advantages_BT: Tensor;
  /** For the critic. */
  readonly returns_BT?: Tensor;
}

export interface PolicyPiece {
  readonly loss: (inputs: PolicyPieceInputs) => LossOutput;
  /**
   * Whether the loss contains the ratio policy / anchor. In bypass mode that ratio is the correction itself, and the
   * importance weights are not applied a second time.
   */
  readonly hasRatio: boolean;
  /**
   * When the loss itself weights tokens by how likely the sampler was to draw them: always, by anchor / sampler, or in
   * bypass mode, by its own ratio held fixed, which is then policy / sampler.
   */
  readonly weighsSampler?: "always" | "bypass";
  /** Chooses tokens over the whole batch; it gets the anchor's log-probs in place of the policy's. */
  readonly select?: (inputs: PolicyLossInputs) => Tensor;
  /** Whether the loss reads `segments_BT`. */
  readonly usesSegments?: boolean;
}

export interface PolicyPieceInputs extends PolicyLossInputs {
  readonly samplerLogprobs_BT: Tensor;
  readonly rewards_B: Tensor;
  /** Tokens that `select` chose; present if the piece has it. */
  readonly selected_BT?: Tensor;
  /** The segment of each token; present if the piece uses segments. */
  readonly segments_BT?: Tensor;
}

interface CriticPiece extends ValueLossOptions {
  /** The weight of the value loss. */
  readonly coefficient: number;
}
