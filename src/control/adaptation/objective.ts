/**
 * PPO on the policy that acted: the teacher with its encoder, or the student with the latents it inferred.
 *
 * In: a rollout and its tensors. Out: metrics; the policy that acted and the critic have changed. Latents of a student are those
 * it acted on and get no gradient: what it infers is learned by regression alone. The first ticks of an episode count for
 * nobody's loss, but their rewards reach the ticks after them through the advantages.
 */

import { entropyBonus } from "../../algorithms/losses/entropy-bonus.ts";
import { addMetrics, readMetrics } from "../../algorithms/losses/loss-metrics.ts";
import { ppoClipLoss } from "../../algorithms/losses/policy/ppo-clip.ts";
import { valueLoss } from "../../algorithms/losses/value-loss.ts";
import { maskedMean } from "../../algorithms/masked.ts";
import { whiten } from "../../algorithms/whiten.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { meanMetrics } from "../../training/mean-metrics.ts";
import type { ControlRollout } from "../control-rollout.ts";
import { shuffledMinibatches } from "../ppo/minibatches.ts";
import { scoreControl } from "../ppo/scores.ts";
import { adaptedLr } from "../ppo/trainer.ts";
import type { AdaptationBatch } from "./batch.ts";
import { latentMatchingLoss } from "./latent-matching.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";
import { type AdaptationPhase, phaseRules } from "./policy/phases.ts";

/** The settings of PPO. */
export interface PolicyUpdateOptions {
  readonly gamma: number;
  readonly lambda: number;
  readonly clip: number;
  readonly entropyCoefficient: number;
  readonly policyEpochs: number;
  readonly policyMinibatches: number;
  /** The learning rate of the policy follows this KL between updates and rollout. null: it stays. */
  readonly targetKl: number | null;
  readonly maxGradNorm: number;
}

/** Who is trained, and by what. */
export interface PolicyUpdateParts {
  readonly policy: AdaptationPolicy;
  readonly phase: AdaptationPhase;
  /** Of the policy that acts. */
  readonly policyOptimizer: Optimizer;
  readonly criticOptimizer: Optimizer;
  /** How strongly the encoder is pulled to what the adapt module infers, in the teacher's loss. 0: not at all. */
  readonly encoderPull: number;
}

/** The policy and its critic learn from a rollout, in several passes. */
export function trainPolicy(
  parts: PolicyUpdateParts,
  rollout: ControlRollout,
  batch: AdaptationBatch,
  options: PolicyUpdateOptions,
  random: Random,
): Metrics {
  const records: Metrics[] = [];
  tensorScope(() => {
    const rows = noGrad(() => rowsOf(parts, rollout, batch, options));
    for (let epoch = 0; epoch < options.policyEpochs; epoch++) {
      for (const own of shuffledMinibatches(rows, options.policyMinibatches, random)) {
        records.push(tensorScope(() => update(parts, own, options)));
      }
    }
  });
  return { ...meanMetrics(records), "train/lr": parts.policyOptimizer.groups[0]!.lr };
}

/** A rollout as B = T * N rows of everything that an update reads. */
type PolicyRows = {
  readonly observations_BO: Tensor;
  readonly actions_BA: Tensor;
  readonly samplerLogprobs_B: Tensor;
  /** What the student acted on; for a teacher who is pulled towards it, what the adapt module infers. */
  readonly predicted_BZ?: Tensor;
  /** The distribution of actions before the first update. */
  readonly statistics_BP: Tensor;
  readonly advantages_B: Tensor;
  readonly values_BG: Tensor;
  readonly returns_BG: Tensor;
  readonly lossMask_B: Tensor;
};

function rowsOf(
  parts: PolicyUpdateParts,
  rollout: ControlRollout,
  { observations_TNO, isFirst_TN, carry_NC }: AdaptationBatch,
  { gamma, lambda }: PolicyUpdateOptions,
): PolicyRows {
  const { policy, phase, encoderPull } = parts;
  const { acts, latentFrom, remembers, skippedTicks } = phaseRules[phase];
  const B = rollout.numTicks * rollout.numEnvs;
  const observations_BO = observations_TNO.view(B, -1);
  const needsPrediction = latentFrom !== "encoderPriv" || encoderPull > 0;
  const predicted = needsPrediction ? policy.predict(remembers, observations_TNO, isFirst_TN, carry_NC) : null;
  const predicted_BZ = predicted?.latents_TNZ.reshape(B, -1);
  const latents_BZ = latentsOf(parts, observations_BO, predicted_BZ);
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

/** What the policy that acts knows of hidden things: what its encoder says of them, or what it was told when it acted. */
function latentsOf({ policy, phase }: PolicyUpdateParts, observations_BO: Tensor, predicted_BZ?: Tensor): Tensor {
  const isTeacher = phaseRules[phase].latentFrom === "encoderPriv";
  return isTeacher || predicted_BZ === undefined ? policy.encode(observations_BO) : predicted_BZ;
}

function update(parts: PolicyUpdateParts, rows: PolicyRows, options: PolicyUpdateOptions): Metrics {
  const { policy, phase, policyOptimizer, criticOptimizer, encoderPull } = parts;
  const { acts } = phaseRules[phase];
  const { distribution } = policy[acts];
  const { observations_BO, predicted_BZ, values_BG } = rows;
  const latents_BZ = latentsOf(parts, observations_BO, predicted_BZ);
  const means_BA = policy.means(acts, observations_BO, latents_BZ);
  // Losses are over [B, T]: rows of one tick each, and for values one column per group of rewards.
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
  policyOptimizer.zeroGrad();
  criticOptimizer.zeroGrad();
  losses.reduce((sum, loss) => sum.add(loss)).backward();
  const norms = [policyOptimizer, criticOptimizer].map((optimizer) => {
    const norm = clipGradNorm(
      optimizer.groups.flatMap(({ parameters }) => [...parameters.values()]),
      options.maxGradNorm,
    ).item();
    optimizer.step();
    optimizer.zeroGrad();
    return norm;
  });
  if (options.targetKl !== null) followKl(policyOptimizer, kl, options.targetKl);
  return {
    ...readMetrics(addMetrics([policyLoss.metrics, bonus.metrics, critic.metrics])),
    "policy/kl": kl,
    "train/grad_norm": norms[0]!,
    "train/critic_grad_norm": norms[1]!,
  };
}

/** The encoder learns to say what the student can infer: only the pull on it is left where the student stands still. */
function pullOf(latents_BZ: Tensor, predicted_BZ: Tensor, lossMask_BT: Tensor, encoderPull: number): Tensor {
  const { loss_BT } = latentMatchingLoss(
    { studentLatents_BTZ: predicted_BZ.unsqueeze(1), teacherLatents_BTZ: latents_BZ.unsqueeze(1), lossMask_BT },
    { teacherPull: encoderPull },
  );
  return maskedMean(loss_BT, lossMask_BT);
}

/** At the first update nothing has moved yet: the KL is 0 and says nothing. */
function followKl({ groups }: Optimizer, kl: number, target: number): void {
  if (kl <= 0) return;
  for (const group of groups) group.lr = adaptedLr(group.lr, kl, target);
}
