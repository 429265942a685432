/** The passes of one update: which tokens go through which models, and the loss of what they say. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import type { globalDenominators } from "../algorithms/reduce.ts";
import { type ScoredBatch, type ScoredRows, selectRows } from "../flow/token-batch.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { keep } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { entropyOf, prefixed } from "./batch-metrics.ts";
import type { LossForesight } from "./foresee-loss.ts";
import { type Critic, policyOf, valuesOf } from "./measure-rows.ts";
import type { MetricSums } from "./metric-sums.ts";
import type { PassOutput, UpdatePass } from "./strategy/strategy.ts";
import { rowDivergences, type TeachingParts } from "./teaching.ts";
import { type Grid, type PackedTokens, packTokens, type RowTokens } from "./token-rows.ts";
import type { TrainerReading } from "./trainer-reading.ts";

/** What learns, and from what. */
interface LearningParts {
  readonly model: CausalLm;
  readonly recipe: Recipe;
  readonly foresight: LossForesight;
  readonly critic: Critic | null;
  readonly teaching?: TeachingParts;
  readonly options: { readonly temperature: number; readonly recompute: boolean };
}

/** The batch of an update, and where what its passes see is put. */
interface UpdateBatch {
  readonly grid: Grid;
  /** The rows as their teachers read them, where whole distributions are compared. */
  readonly taught: Grid<RowTokens> | null;
  readonly scored: ScoredBatch;
  readonly denominators: ReturnType<typeof globalDenominators>;
  readonly reading: TrainerReading;
  readonly sums: MetricSums;
  /** The log-probs of each part, where `isSeen`. Whoever made the list frees them. */
  readonly seen: Tensor[];
}

/** Whether something is told of all that the policy says in an update. */
export function isSeen({ correctsInLoss }: Recipe, { anchorLogprobs_BT }: ScoredBatch): boolean {
  return correctsInLoss || anchorLogprobs_BT === null;
}

/** A pass for each part of the rows; those after the first `numOwn` count for nothing. */
export function updatePasses(
  learning: LearningParts,
  update: UpdateBatch,
  parts: readonly (readonly number[])[],
  numOwn: number,
): readonly UpdatePass[] {
  const { device } = learning.model;
  return parts.map((part, i) => ({
    forward: () => forwardOf(learning, packTokens(update.grid, part, device)),
    loss: (output) => (i < numOwn ? lossOf(learning, update, part, output) : idleLoss(learning, output)),
  }));
}

function forwardOf({ model, critic, options }: LearningParts, packed: PackedTokens): PassOutput {
  const run = (one: CausalLm) => one.forward(packed.ids_S, packed.layout, options);
  return { packed, policy_SD: run(model), critic_SD: critic && run(critic.model) };
}

function lossOf(
  { model, recipe, foresight, critic, teaching, options }: LearningParts,
  { grid, taught, scored, denominators, reading, sums, seen }: UpdateBatch,
  part: readonly number[],
  { packed, policy_SD, critic_SD }: PassOutput,
): Tensor {
  const rows = lossRows(scored, part, critic);
  const foresee = foresight.of(rows, denominators, packed);
  const policy = policyOf(model, packed, policy_SD, { ...options, foresee });
  reading.add(part, policy);
  if (isSeen(recipe, scored)) seen.push(keep(policy.logprobs_BT.detach()));
  const values = critic && valuesOf(critic.head, packed, critic_SD!);
  const pass = { rows: part, packed, hidden_ND: policy.hidden_ND };
  const apart = teaching && taught && rowDivergences(grid, taught, pass, teaching, { ...options, policy: model });
  const { loss, terms, metrics } = recipe.loss(
    {
      rows,
      policyLogprobs_BT: policy.logprobs_BT,
      entropies_BT: policy.entropies_BT,
      ...(values && { values_BT: values.values_BT }),
      ...(apart && { distillation: { divergence_BT: apart.divergence_BT, coefficient: teaching.coefficient } }),
    },
    denominators,
  );
  const losses = { "train/loss": loss.detach(), ...prefixed("train/loss_", terms) };
  sums.add({ ...entropyOf(policy, rows), ...metrics, ...apart?.metrics }, losses);
  return loss;
}

/** A loss without gradient that reaches every weight that a loss reaches. */
function idleLoss({ model, critic, options }: LearningParts, { packed, policy_SD, critic_SD }: PassOutput): Tensor {
  const nothing = policyOf(model, packed, policy_SD, options).logprobs_BT.sum().mul(0);
  if (critic === null) return nothing;
  return nothing.add(valuesOf(critic.head, packed, critic_SD!).values_BT.sum().mul(0));
}

/** Rows of the loss. Where the critic is elsewhere, its term is too. */
function lossRows(scored: ScoredBatch, rows: readonly number[], critic: Critic | null): ScoredRows {
  const selected = selectRows(scored, rows);
  return critic === null ? { ...selected, returns_BT: null, oldValues_BT: null } : selected;
}
