/**
 * The losses of PPO on some rows of a rollout: clipped surrogate and entropy for the policy, squared error for the critic.
 *
 * In: rows and the networks. Out: two losses without dimensions, and numbers to watch. The formulas are those of
 * algorithms/losses, without their checks per row: at 64 rows these take as long as the networks. Here rewards and values are
 * checked once, when a rollout is scored, and environments refuse actions that are no numbers.
 */
import { clippedSurrogate } from "../../algorithms/losses/policy/clipped-surrogate.ts";
import type { MLP } from "../../torch/nn/mlp.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlPolicy } from "../policy/control-policy.ts";

/** What training knows of B ticks. */
export type ControlRows = {
  /** Observations as the networks take them. */
  readonly seen_BO: Tensor;
  readonly actions_BA: Tensor;
  readonly samplerLogprobs_B: Tensor;
  /** The distribution of actions under the policy that acted. */
  readonly statistics_BS: Tensor;
  /** Of the critic before the first update. */
  readonly values_BG: Tensor;
  readonly returns_BG: Tensor;
  readonly advantages_B: Tensor;
};

/** The settings of the losses. */
export interface ControlLossOptions {
  /** Ratios beyond 1 - clip and 1 + clip have no gradient. */
  readonly clip: number;
  /** How far a value may move from the old one within a step; null: as far as it likes. */
  readonly valueClip: number | null;
  /** Weight of the entropy. */
  readonly entropy: number;
  /** Advantages of a minibatch have mean 0 and deviation 1. */
  readonly normalizeAdvantages: boolean;
}

/** What an update follows, and what it tells. */
export interface ControlLosses {
  /** mean(-min(r A, clamp(r, 1 - clip, 1 + clip) A)) - entropy mean(H), r = policy / sampler */
  readonly policyLoss: Tensor;
  /** mean(1/2 max((V - R)^2, (clamp(V, V_old - valueClip, V_old + valueClip) - R)^2)) */
  readonly criticLoss: Tensor;
  readonly outputs_BP: Tensor;
  /** Means over the rows, outside of the graph, under the names of the metrics. */
  readonly metrics: Readonly<Record<string, Tensor>>;
}

/** The formulas stand at the fields of the result. */
export function controlLosses(
  policy: ControlPolicy,
  critic: MLP,
  rows: ControlRows,
  { clip, valueClip, entropy, normalizeAdvantages }: ControlLossOptions,
): ControlLosses {
  const { seen_BO, actions_BA, samplerLogprobs_B } = rows;
  const outputs_BP = policy.outputs(seen_BO);
  const logRatio_B = policy.distribution.logprobs(outputs_BP, actions_BA).sub(samplerLogprobs_B);
  const ratio_B = logRatio_B.exp();
  const advantages_B = normalizeAdvantages ? standardized(rows.advantages_B) : rows.advantages_B;
  const surrogate = clippedSurrogate(ratio_B, advantages_B, { clipLow: clip, clipHigh: clip });
  const meanEntropy = policy.distribution.entropies(outputs_BP).mean();
  const policyLoss = surrogate.loss_BT.mean().sub(meanEntropy, entropy);
  const criticLoss = squares(critic.forward(seen_BO), rows, valueClip).mean().mul(0.5);
  return {
    policyLoss,
    criticLoss,
    outputs_BP,
    metrics: {
      "policy/approx_kl": ratio_B.detach().sub(logRatio_B.detach()).mean().sub(1),
      "policy/clip_fraction": surrogate.isClipped_BT.to(ratio_B.dtype).mean(),
      "policy/entropy": meanEntropy.detach(),
      "train/loss_policy": policyLoss.detach(),
      "train/loss_value": criticLoss.detach(),
    },
  };
}

function squares(values_BG: Tensor, { values_BG: old_BG, returns_BG }: ControlRows, valueClip: number | null): Tensor {
  const plain_BG = values_BG.sub(returns_BG).square();
  if (valueClip === null) return plain_BG;
  const clipped_BG = old_BG.add(values_BG.sub(old_BG).clamp(-valueClip, valueClip)).sub(returns_BG).square();
  return plain_BG.maximum(clipped_BG);
}

function standardized(advantages_B: Tensor): Tensor {
  return advantages_B.sub(advantages_B.mean()).div(advantages_B.std().add(1e-8));
}
