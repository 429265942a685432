/**
 * The losses of PPO on a minibatch: clipped surrogate and entropy for the policy, squared error for the critic.
 *
 * In: rows and the networks. Out: two scalar losses and metrics. The formulas are those of algorithms/losses, without their
 * checks and masks per row, which take as long as the networks at 64 rows. Rewards and values are checked once, when a rollout
 * is scored; environments refuse actions that are not numbers; and an update that is not finite is skipped.
 */
import { clippedSurrogate } from "../../algorithms/losses/policy/clipped-surrogate.ts";
import type { MLP } from "../../torch/nn/mlp.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlPolicy } from "../policy/control-policy.ts";

/** B rows of a rollout, one per tick and environment. */
export type ControlRows = {
  /** Normalized observations, as the networks take them. */
  readonly seen_BO: Tensor;
  readonly actions_BA: Tensor;
  readonly samplerLogprobs_B: Tensor;
  /** The action distribution of the policy that acted, for the KL. */
  readonly statistics_BS: Tensor;
  /** The critic's values before the first update. */
  readonly values_BG: Tensor;
  readonly returns_BG: Tensor;
  readonly advantages_B: Tensor;
};

/** The settings of the losses. */
export interface ControlLossOptions {
  /** Probability ratios outside [1 - clip, 1 + clip] get no gradient. */
  readonly clip: number;
  /** Bound on how far a value may move from the one before the updates of a rollout. null: no bound. */
  readonly valueClip: number | null;
  /** Weight of the entropy bonus. */
  readonly entropy: number;
  /** Scale the advantages of each minibatch to mean 0 and standard deviation 1. */
  readonly normalizeAdvantages: boolean;
}

/** The losses of a minibatch, and its metrics. */
interface ControlLosses {
  /** mean(-min(r A, clamp(r, 1 - clip, 1 + clip) A)) - entropy mean(H), r = policy / sampler */
  readonly policyLoss: Tensor;
  /** mean(1/2 max((V - R)^2, (clamp(V, V_old - valueClip, V_old + valueClip) - R)^2)) */
  readonly criticLoss: Tensor;
  readonly outputs_BP: Tensor;
  /** Detached means over the rows, by the name of the metric. */
  readonly metrics: Readonly<Record<string, Tensor>>;
}

/** The formulas are written at the fields of the result. */
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
