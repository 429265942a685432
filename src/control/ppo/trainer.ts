/**
 * Trains an actor and a critic by PPO.
 *
 * In: a rollout of the policy as it is now. Out: metrics; the weights have changed. Policy and critic have an optimizer each.
 * The statistics of observations move last, so that all updates see what the policy saw when it acted. Knows nothing of
 * environments. The implementation details are those of Huang et al. 2022, "The 37 implementation details of PPO".
 */

import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { stack, tensor } from "../../torch/create.ts";
import type { MLP } from "../../torch/nn/mlp.ts";
import { applySchedule, linearDecay } from "../../torch/optim/schedule.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import type { ControlPolicy } from "../policy/control-policy.ts";
import type { SavedParts } from "../trainer-checkpoint.ts";
import { FlatAdamW } from "./flat-adamw.ts";
import { GradientStep } from "./gradient-step.ts";
import { type ControlLossOptions, type ControlRows, controlLosses } from "./losses.ts";
import { type Objective, type PpoOptions, trainByPpo } from "./ppo.ts";
import { RewardNormalizer, type RewardNormalizerState } from "./reward-normalizer.ts";
import { scoreControl } from "./scores.ts";

/** The settings of PPO. */
export interface ControlTrainerOptions extends ControlLossOptions, Omit<PpoOptions, "klRate"> {
  /** Discount per tick. */
  readonly gamma: number;
  /** Decay of generalized advantage estimation. */
  readonly lambda: number;
  readonly lr: number;
  readonly criticLr: number;
  readonly schedule: ControlSchedule;
  /** Divide rewards by the running deviation of the discounted return. */
  readonly normalizeRewards: boolean;
  readonly seed: number;
}

/** How learning rates change: never, linearly to 0 at the last step, or (the policy's alone) with the KL of its updates. */
export type ControlSchedule =
  | { readonly type: "constant" }
  | { readonly type: "linear"; readonly numSteps: number }
  | { readonly type: "kl"; readonly targetKl: number };

/** Everything beside weights and optimizers that a trainer needs to continue, as plain data. */
interface ControlTrainerState {
  readonly step: number;
  readonly rewards: RewardNormalizerState;
}

/** Adam's epsilon in the reference implementations. Larger than usual, it damps updates whose gradients are close to 0. */
const ADAM_EPS = 1e-5;

/** Learns from one rollout after another. Owns the optimizers, and from here on the memory of the parameters. */
export class ControlTrainer {
  readonly policy: ControlPolicy;
  readonly critic: MLP;
  readonly policyOptimizer: FlatAdamW;
  readonly criticOptimizer: FlatAdamW;
  readonly #gradientStep: GradientStep;
  readonly #options: ControlTrainerOptions;
  readonly #rewards: RewardNormalizer;
  #step = 0;

  constructor(policy: ControlPolicy, critic: MLP, options: ControlTrainerOptions) {
    this.policy = policy;
    this.critic = critic;
    this.#options = options;
    this.#rewards = new RewardNormalizer(options.gamma);
    const settings = { eps: ADAM_EPS, weightDecay: 0 };
    this.policyOptimizer = new FlatAdamW("policy", policy, { ...settings, lr: options.lr });
    this.criticOptimizer = new FlatAdamW("critic", critic, { ...settings, lr: options.criticLr });
    this.#gradientStep = new GradientStep([this.policyOptimizer, this.criticOptimizer]);
  }

  step(rollout: ControlRollout): { readonly metrics: Metrics } {
    const metrics = tensorScope(() => this.#learn(rollout));
    this.policy.normalizer?.update(rollout);
    this.#step++;
    return { metrics };
  }

  state(): ControlTrainerState {
    return { step: this.#step, rewards: this.#rewards.state() };
  }

  /** Continues from a saved state. Weights and optimizers are restored by whoever saved them. */
  restore({ step, rewards }: ControlTrainerState): void {
    this.#step = step;
    this.#rewards.restore(rewards);
  }

  savedParts(): SavedParts {
    return {
      policy: { optimizer: this.policyOptimizer, parameters: this.policy.namedParameters() },
      critic: { optimizer: this.criticOptimizer, parameters: this.critic.namedParameters() },
    };
  }

  #learn(rollout: ControlRollout): Metrics {
    const { seed, schedule } = this.#options;
    const { policyOptimizer, criticOptimizer } = this;
    if (schedule.type === "linear") {
      const factor = linearDecay(schedule.numSteps)(this.#step);
      for (const optimizer of [policyOptimizer, criticOptimizer]) applySchedule(optimizer, factor);
    }
    const rows = noGrad(() => this.#rowsOf(rollout));
    const { updates, numSkipped } = trainByPpo(
      rows,
      {
        objective: (minibatch) => this.#objective(minibatch),
        gradientStep: this.#gradientStep,
        policyOptimizer,
        random: (epoch) => new Random(deriveSeed(seed, "minibatches", this.#step, epoch)),
      },
      { ...this.#options, klRate: schedule.type === "kl" ? { targetKl: schedule.targetKl, when: "before" } : null },
    );
    return {
      ...meansOf(
        updates.map(({ report, gradNorm, criticGradNorm }) => ({
          ...report,
          "train/grad_norm": gradNorm,
          "train/critic_grad_norm": criticGradNorm,
        })),
      ),
      "value/explained_variance": noGrad(() => explainedVariance(rows)),
      "train/lr": policyOptimizer.groups[0]!.lr,
      "train/updates": updates.length,
      "train/skipped_updates": numSkipped,
    };
  }

  #rowsOf(rollout: ControlRollout): ControlRows {
    const { observations_TNO, observationSize: O, actions_TNA, actionSize: A, samplerLogprobs_TN } = rollout;
    const { policy, critic } = this;
    const { normalizeRewards, gamma, lambda } = this.#options;
    const B = rollout.numTicks * rollout.numEnvs;
    const rewards_TNG = normalizeRewards ? this.#rewards.normalize(rollout) : rollout.rewards_TNG;
    const seen_BO = policy.see(tensor(observations_TNO, [B, O]));
    const valuesOf = (observations_RO: Tensor) => critic.forward(policy.see(observations_RO));
    return {
      seen_BO,
      actions_BA: tensor(actions_TNA, [B, A]),
      samplerLogprobs_B: tensor(samplerLogprobs_TN, [B]),
      statistics_BS: policy.distribution.statistics(policy.outputs(seen_BO)),
      ...scoreControl(rollout, rewards_TNG, valuesOf, { gamma, lambda }),
    };
  }

  #objective(rows: ControlRows): Objective<Readonly<Record<string, Tensor>>> {
    const { policy, critic } = this;
    const { policyLoss, criticLoss, outputs_BP, metrics } = controlLosses(policy, critic, rows, this.#options);
    return {
      loss: policyLoss.add(criticLoss),
      kl: () => noGrad(() => policy.distribution.klFrom(rows.statistics_BS, outputs_BP).mean().item()),
      report: metrics,
    };
  }
}

/** Means over the updates, read from the device in one go. Empty where no update was made. */
function meansOf(updates: readonly Readonly<Record<string, Tensor>>[]): Metrics {
  if (updates.length === 0) return {};
  const names = Object.keys(updates[0]!);
  const all = stack(updates.flatMap((metrics) => names.map((name) => metrics[name]!)));
  const means = all.view(updates.length, names.length).mean(0).toArray();
  return Object.fromEntries(names.map((name, i) => [name, means[i]!]));
}

/** 1 - Var(R - V) / Var(R): 1 for a critic that predicts every return, 0 for one that knows no more than their mean. */
function explainedVariance({ values_BG, returns_BG }: ControlRows): number {
  const [left, all] = [returns_BG.sub(values_BG).variance().item(), returns_BG.variance().item()];
  return all === 0 ? Number.NaN : 1 - left / all;
}
