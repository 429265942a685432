/**
 * The objective of PPO for the policy that acted: the teacher with its encoder, or the student with the latents it inferred.
 *
 * In: a rollout as tensors. Out: rows, and the objective of a minibatch of them for `ppo/ppo.ts`. The latents of a student are
 * the ones it acted on and get no gradient: inference is learned by regression alone. The first ticks of an episode are masked
 * out of every loss, but their rewards reach later ticks through the advantages.
 *
 * The formulas are those of `ppo/losses.ts`, but means are taken over a mask, by the masked losses of `algorithms/losses`. They
 * also leave out rows that are not finite. A masked mean rounds differently and costs more, so PPO, in which every row counts,
 * keeps its plain means.
 */

import { entropyBonus } from "../../algorithms/losses/entropy-bonus.ts";
import { addMetrics } from "../../algorithms/losses/loss-metrics.ts";
import { ppoClipLoss } from "../../algorithms/losses/policy/ppo-clip.ts";
import { valueLoss } from "../../algorithms/losses/value-loss.ts";
import { maskedMean } from "../../algorithms/masked.ts";
import { whiten } from "../../algorithms/whiten.ts";
import type { LossMetrics } from "../../flow/batch-statistics.ts";
import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import type { Objective } from "../ppo/ppo.ts";
import { scoreControl } from "../ppo/scores.ts";
import type { AdaptationBatch } from "./batch.ts";
import { latentMatchingLoss } from "./latent-matching.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { type AdaptationPhase, phaseRules } from "./policy/phases.ts";

/** The settings of the losses. */
export interface PolicyLossOptions {
  readonly gamma: number;
  readonly lambda: number;
  readonly clip: number;
  readonly entropyCoefficient: number;
}

/** The policy that learns. */
interface PolicyLearner {
  readonly policy: AdaptationPolicy;
  readonly phase: AdaptationPhase;
  /** Weight in the teacher's loss of the distance between its latent and the inferred one. 0 leaves the encoder alone. */
  readonly encoderPull: number;
}

/** Sums and counts of the losses' metrics, and the KL of the minibatch. */
interface PolicyReport {
  readonly losses: LossMetrics;
  readonly kl: number;
}

/** A rollout as B = T * N rows of everything that an update reads. */
type PolicyRows = {
  readonly observations_BO: Tensor;
  readonly actions_BA: Tensor;
  readonly samplerLogprobs_B: Tensor;
  /** The latents the student acted on, or, for a teacher that is pulled towards them, what the adapt module infers. */
  readonly predicted_BZ?: Tensor;
  /** The distribution of actions before the first update. */
  readonly statistics_BP: Tensor;
  readonly advantages_B: Tensor;
  readonly values_BG: Tensor;
  readonly returns_BG: Tensor;
  readonly lossMask_B: Tensor;
};

/** The rows of a rollout, scored by the critic. Call it without gradients. */
export function policyRows(
  learner: PolicyLearner,
  rollout: ControlRollout,
  { observations_TNO, isFirst_TN, carry_NC }: AdaptationBatch,
  { gamma, lambda }: PolicyLossOptions,
): PolicyRows {
  const { policy, phase, encoderPull } = learner;
  const { acts, latentFrom, remembers, skippedTicks } = phaseRules[phase];
  const B = rollout.numTicks * rollout.numEnvs;
  const observations_BO = observations_TNO.view(B, -1);
  const needsPrediction = latentFrom !== "encoderPriv" || encoderPull > 0;
  const predicted = needsPrediction ? policy.predict(remembers, observations_TNO, isFirst_TN, carry_NC) : null;
  const predicted_BZ = predicted?.latents_TNZ.reshape(B, -1);
  const latents_BZ = latentsOf(learner, observations_BO, predicted_BZ);
  const scores = scoreControl(
    rollout,
    rollout.rewards_TNG,
    (observations_RO) => policy.values(policy.normalizer.forward(observations_RO)),
    { gamma, lambda },
  );
  const lossMask_B = tensor(Int32Array.from(rollout.episodeTicks_TN), [B]).gt(skippedTicks);
  return {
    observations_BO,
    actions_BA: tensor(rollout.actions_TNA, [B, rollout.actionSize]),
    samplerLogprobs_B: tensor(rollout.samplerLogprobs_TN, [B]),
    ...(predicted_BZ && { predicted_BZ }),
    statistics_BP: policy[acts].distribution.statistics(policy.means(acts, observations_BO, latents_BZ)),
    values_BG: scores.values_BG,
    returns_BG: scores.returns_BG,
    advantages_B: whiten(scores.advantages_B.unsqueeze(1), lossMask_B.unsqueeze(1)).squeeze(1),
    lossMask_B,
  };
}

/** The latents of the policy that acts: the encoder's, which learn, or the inferred ones, which are fixed. */
function latentsOf({ policy, phase }: PolicyLearner, observations_BO: Tensor, predicted_BZ?: Tensor): Tensor {
  const isTeacher = phaseRules[phase].latentFrom === "encoderPriv";
  return isTeacher || predicted_BZ === undefined ? policy.encode(observations_BO) : predicted_BZ;
}

/** Clipped surrogate, entropy bonus, squared error of the critic, and the pull on the encoder where there is one. */
export function policyObjective(
  learner: PolicyLearner,
  rows: PolicyRows,
  options: PolicyLossOptions,
): Objective<PolicyReport> {
  const { policy, phase, encoderPull } = learner;
  const { acts } = phaseRules[phase];
  const { distribution } = policy[acts];
  const { observations_BO, predicted_BZ, values_BG } = rows;
  const latents_BZ = latentsOf(learner, observations_BO, predicted_BZ);
  const means_BA = policy.means(acts, observations_BO, latents_BZ);
  // The losses take [B, T]: here rows of a single tick, and for values one column per reward group.
  const lossMask_BT = rows.lossMask_B.unsqueeze(1);
  const policyLoss = ppoClipLoss(
    {
      policyLogprobs_BT: distribution.logprobs(means_BA, rows.actions_BA).unsqueeze(1),
      anchorLogprobs_BT: rows.samplerLogprobs_B.unsqueeze(1),
      advantages_BT: rows.advantages_B.unsqueeze(1),
      lossMask_BT,
    },
    { clipLow: options.clip, clipHigh: options.clip, dualClip: null },
  );
  const bonus = entropyBonus(
    { entropies_BT: distribution.entropies(means_BA).unsqueeze(1), lossMask_BT },
    options.entropyCoefficient,
  );
  const valueMask_BG = lossMask_BT.expand(...values_BG.shape);
  const critic = valueLoss(
    {
      values_BT: policy.values(observations_BO),
      oldValues_BT: values_BG,
      returns_BT: rows.returns_BG,
      lossMask_BT: valueMask_BG,
    },
    { valueClip: null },
  );
  const losses = [
    maskedMean(policyLoss.loss_BT.add(bonus.loss_BT), lossMask_BT),
    maskedMean(critic.loss_BT, valueMask_BG),
    ...(encoderPull > 0 && predicted_BZ ? [pullOf(latents_BZ, predicted_BZ, lossMask_BT, encoderPull)] : []),
  ];
  const kl = maskedMean(distribution.klFrom(rows.statistics_BP, means_BA).detach(), rows.lossMask_B).item();
  return {
    loss: losses.reduce((sum, loss) => sum.add(loss)),
    kl: () => kl,
    report: { losses: addMetrics([policyLoss.metrics, bonus.metrics, critic.metrics]), kl },
  };
}

/** Pulls the encoder towards what the student can infer. The inferred latents are fixed, so only the encoder feels it. */
function pullOf(latents_BZ: Tensor, predicted_BZ: Tensor, lossMask_BT: Tensor, encoderPull: number): Tensor {
  const { loss_BT } = latentMatchingLoss(
    { studentLatents_BTZ: predicted_BZ.unsqueeze(1), teacherLatents_BTZ: latents_BZ.unsqueeze(1), lossMask_BT },
    { teacherPull: encoderPull },
  );
  return maskedMean(loss_BT, lossMask_BT);
}
