/**
 * Proximal policy optimization of a control policy and its critic.
 *
 * In: a rollout of the policy as it is now. Out: metrics; the weights have changed. Several passes over the rollout, each in
 * shuffled minibatches, with an optimizer for the policy and one for the critic. The statistics of observations move last, so
 * that all updates see what the policy saw when it acted. Knows nothing of environments.
 *
 * PPO (arXiv:1707.06347) with the details of Huang et al. 2022; the learning rate by KL is that of arXiv:2109.11978.
 */

import type { Metrics } from "../../flow/metrics.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { stack, tensor } from "../../torch/create.ts";
import type { MLP } from "../../torch/nn/mlp.ts";
import { AdamW } from "../../torch/optim/adamw.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import { applySchedule, linearDecay } from "../../torch/optim/schedule.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import type { ControlPolicy } from "../policy/control-policy.ts";
import { FlatParameters } from "./flat-parameters.ts";
import { type ControlLossOptions, type ControlRows, controlLosses } from "./losses.ts";
import { shuffledMinibatches } from "./minibatches.ts";
import { RewardNormalizer, type RewardNormalizerState } from "./reward-normalizer.ts";
import { scoreControl } from "./scores.ts";

/** The settings of PPO. */
export interface ControlTrainerOptions extends ControlLossOptions {
  readonly gamma: number;
  readonly lambda: number;
  /** Passes over a rollout. */
  readonly epochs: number;
  /** Parts of a pass, with an update each. */
  readonly minibatches: number;
  /** Of the policy's gradient, and of the critic's. */
  readonly maxGradNorm: number;
  readonly lr: number;
  readonly criticLr: number;
  readonly schedule: ControlSchedule;
  readonly normalizeRewards: boolean;
  readonly seed: number;
}

/** How learning rates change: not at all, on a line to 0 at the last step, or (the policy's) by how far updates move it. */
export type ControlSchedule =
  | { readonly type: "constant" }
  | { readonly type: "linear"; readonly numSteps: number }
  | { readonly type: "kl"; readonly target: number };

/** What a trainer needs to go on beside weights and optimizers, as plain data. */
export interface ControlTrainerState {
  readonly step: number;
  readonly rewards: RewardNormalizerState;
}

/** Of the reference implementations: larger than usual, it damps updates whose gradients are all but 0. */
const ADAM_EPS = 1e-5;

/** Learns from one rollout after another. Owns the optimizers, and from here on the memory of the parameters. */
export class ControlTrainer {
  readonly policy: ControlPolicy;
  readonly critic: MLP;
  readonly policyOptimizer: AdamW;
  readonly criticOptimizer: AdamW;
  readonly #options: ControlTrainerOptions;
  readonly #rewards: RewardNormalizer;
  readonly #policyParameters: FlatParameters;
  readonly #criticParameters: FlatParameters;
  #step = 0;

  constructor(policy: ControlPolicy, critic: MLP, options: ControlTrainerOptions) {
    this.policy = policy;
    this.critic = critic;
    this.#options = options;
    this.#rewards = new RewardNormalizer(options.gamma);
    this.#policyParameters = new FlatParameters(policy);
    this.#criticParameters = new FlatParameters(critic);
    const settings = { eps: ADAM_EPS, weightDecay: 0 };
    this.policyOptimizer = new AdamW(new Map([["policy", this.#policyParameters.all]]), {
      ...settings,
      lr: options.lr,
    });
    this.criticOptimizer = new AdamW(new Map([["critic", this.#criticParameters.all]]), {
      ...settings,
      lr: options.criticLr,
    });
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

  /** Goes on where the state was taken. Weights and optimizers are put back by whoever saved them. */
  restore({ step, rewards }: ControlTrainerState): void {
    this.#step = step;
    this.#rewards.restore(rewards);
  }

  #learn(rollout: ControlRollout): Metrics {
    const { epochs, minibatches, seed, schedule } = this.#options;
    if (schedule.type === "linear") {
      const factor = linearDecay(schedule.numSteps)(this.#step);
      for (const optimizer of [this.policyOptimizer, this.criticOptimizer]) applySchedule(optimizer, factor);
    }
    const rows = noGrad(() => this.#rowsOf(rollout));
    const updates: Readonly<Record<string, Tensor>>[] = [];
    for (let epoch = 0; epoch < epochs; epoch++) {
      const random = new Random(deriveSeed(seed, "minibatches", this.#step, epoch));
      for (const minibatch of shuffledMinibatches(rows, minibatches, random)) {
        // Before the first update nothing has moved, and what is measured as KL is rounding.
        const canFollowKl = updates.length > 0;
        updates.push(tensorScope(() => this.#update(minibatch, canFollowKl)));
      }
    }
    return {
      ...meansOf(updates),
      "value/explained_variance": noGrad(() => explainedVariance(rows)),
      "train/lr": this.policyOptimizer.groups[0]!.lr,
      "train/updates": updates.length,
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

  #update(rows: ControlRows, canFollowKl: boolean): Readonly<Record<string, Tensor>> {
    const losses = controlLosses(this.policy, this.critic, rows, this.#options);
    if (canFollowKl) this.#followKl(rows.statistics_BS, losses.outputs_BP);
    this.#policyParameters.zeroGrad();
    this.#criticParameters.zeroGrad();
    losses.policyLoss.add(losses.criticLoss).backward();
    const { maxGradNorm } = this.#options;
    const gradNorm = clipGradNorm([this.#policyParameters.all], maxGradNorm);
    const criticGradNorm = clipGradNorm([this.#criticParameters.all], maxGradNorm);
    this.policyOptimizer.step();
    this.criticOptimizer.step();
    return { ...losses.metrics, "train/grad_norm": gradNorm, "train/critic_grad_norm": criticGradNorm };
  }

  /** Slower where the policy has moved more than twice as far as it should within this step, faster below half of it. */
  #followKl(statistics_BS: Tensor, outputs_BP: Tensor): void {
    const { schedule } = this.#options;
    if (schedule.type !== "kl") return;
    const kl = noGrad(() => this.policy.distribution.klFrom(statistics_BS, outputs_BP).mean().item());
    for (const group of this.policyOptimizer.groups) group.lr = adaptedLr(group.lr, kl, schedule.target);
  }
}

/** The learning rate that follows the KL of an update: a step of 1.5 down above twice the target, up below half of it. */
export function adaptedLr(lr: number, kl: number, target: number): number {
  if (kl > 2 * target) return Math.max(1e-5, lr / 1.5);
  if (kl < target / 2) return Math.min(1e-2, lr * 1.5);
  return lr;
}

/** Over the updates, read from the device in one go. */
function meansOf(updates: readonly Readonly<Record<string, Tensor>>[]): Metrics {
  const names = Object.keys(updates[0] ?? {});
  const all = stack(updates.flatMap((metrics) => names.map((name) => metrics[name]!)));
  const means = all.view(updates.length, names.length).mean(0).toArray();
  return Object.fromEntries(names.map((name, i) => [name, means[i]!]));
}

/** 1 - Var(R - V) / Var(R): 1 where the critic knew all that would come, 0 where it knew no more than the mean. */
function explainedVariance({ values_BG, returns_BG }: ControlRows): number {
  const [left, all] = [returns_BG.sub(values_BG).variance().item(), returns_BG.variance().item()];
  return all === 0 ? Number.NaN : 1 - left / all;
}
