/**
 * Proximal policy optimization (arXiv:1707.06347): the updates that one rollout gives, whatever the policy.
 *
 * This is the place to start reading. A training step of control goes through these files:
 *
 * 1. `collector/collector.ts` lets the policy act, with its weights frozen, for T ticks in N environments: a `ControlRollout`.
 * 2. `ppo/scores.ts` asks the critic about every observation and runs generalized advantage estimation (`ppo/gae.ts`). The
 *    rollout is now a table of B = T * N rows: observation, action, log-probability, value, return, advantage.
 * 3. Here the rows are shuffled and cut into minibatches (`ppo/minibatches.ts`), several times over. Every minibatch gives a
 *    loss (`ppo/losses.ts`), and every loss one step of the optimizers (`ppo/gradient-step.ts`).
 * 4. `ppo/trainer.ts` puts 2 and 3 together for an actor and a critic. `adaptation/trainer.ts` does so for a teacher and its
 *    student, with the loss of `adaptation/objective.ts`: same updates, other networks.
 * 5. `control-loop.ts` takes turns between 1 and 4 until the run is over.
 */
import type { Random } from "../../random/random.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { GradientStep } from "./gradient-step.ts";
import { type Rows, shuffledMinibatches } from "./minibatches.ts";

/** The loss of PPO on a minibatch. */
export interface Objective<Report> {
  /** The losses of policy and critic, added up. */
  readonly loss: Tensor;
  /** Mean KL(policy that acted || policy) on the minibatch. Called at most once, before the weights change. */
  readonly kl: () => number;
  /** Whatever the caller wants to record about the update. */
  readonly report: Report;
}

/** The objective, the optimizers, and the shuffling. */
interface PpoParts<Own extends Rows, Report> {
  readonly objective: (minibatch: Own) => Objective<Report>;
  /** Updates the policy and the critic, in this order. */
  readonly gradientStep: GradientStep;
  /** The optimizer whose learning rate follows the KL. */
  readonly policyOptimizer: Optimizer;
  /** The random stream that shuffles the rows of a pass. */
  readonly random: (epoch: number) => Random;
}

/** How the rows are used. */
export interface PpoOptions {
  /** Passes over the rows. */
  readonly epochs: number;
  /** Minibatches per pass, with one update each. */
  readonly minibatches: number;
  /** Bound on the gradient norm of the policy, and on that of the critic. */
  readonly maxGradNorm: number;
  /** null keeps the learning rate where it is. */
  readonly klRate: KlRate | null;
}

/**
 * A learning rate that keeps the KL of the policy from the one that acted near a target (arXiv:2109.11978).
 *
 * With `when: "before"` an update uses the rate that its own KL leads to, as in rsl_rl; the first update of a rollout keeps
 * the rate, since nothing has moved and its KL is rounding. With `when: "after"` the KL of an update sets the rate of the next
 * one, and a KL of 0 is ignored. PPO runs use the former and adaptation the latter. One order would do, but the measured results
 * of each depend on its own.
 */
interface KlRate {
  readonly targetKl: number;
  readonly when: "before" | "after";
}

/** An update that was made. */
interface PpoUpdate<Report> {
  readonly report: Report;
  /** Gradient norms from before clipping. */
  readonly gradNorm: Tensor;
  readonly criticGradNorm: Tensor;
}

/** All updates of a rollout. */
interface PpoResult<Report> {
  readonly updates: readonly PpoUpdate<Report>[];
  /** Number of updates that were skipped because the loss or a gradient was not finite. */
  readonly numSkipped: number;
}

/** Makes all updates that the rows of a rollout give. Call it in a scope, which owns the tensors of the result. */
export function trainByPpo<Own extends Rows, Report>(
  rows: Own,
  { objective, gradientStep, policyOptimizer, random }: PpoParts<Own, Report>,
  { epochs, minibatches, maxGradNorm, klRate }: PpoOptions,
): PpoResult<Report> {
  const updates: PpoUpdate<Report>[] = [];
  let numSkipped = 0;
  const update = (minibatch: Own): PpoUpdate<Report> | null => {
    const { loss, kl, report } = objective(minibatch);
    if (klRate?.when === "before" && updates.length > 0) followKl(policyOptimizer, kl(), klRate.targetKl);
    const klBefore = klRate?.when === "after" ? kl() : 0;
    const norms = gradientStep.take(loss, maxGradNorm);
    if (norms === null) return null;
    if (klRate?.when === "after" && klBefore > 0) followKl(policyOptimizer, klBefore, klRate.targetKl);
    return { report, gradNorm: norms[0]!, criticGradNorm: norms[1]! };
  };
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (const minibatch of shuffledMinibatches(rows, minibatches, random(epoch))) {
      const made = tensorScope(() => update(minibatch));
      if (made === null) numSkipped++;
      else updates.push(made);
    }
  }
  return { updates, numSkipped };
}

function followKl({ groups }: Optimizer, kl: number, targetKl: number): void {
  for (const group of groups) group.lr = adaptedLr(group.lr, kl, targetKl);
}

/** Divides the rate by 1.5 above twice the target and multiplies it by 1.5 below half of it, within 1e-5 and 1e-2. */
export function adaptedLr(lr: number, kl: number, target: number): number {
  if (kl > 2 * target) return Math.max(1e-5, lr / 1.5);
  if (kl < target / 2) return Math.min(1e-2, lr * 1.5);
  return lr;
}
