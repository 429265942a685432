/**
 * The student learns from the teacher: its latent from the encoder's, its actions from the teacher's.
 *
 * In: a rollout as tensors, whoever acted in it. Out: metrics; the adapt module and, where asked, the student's actor have
 * changed. The teacher is only read. Minibatches are whole sequences of some environments, from the memory that the rollout
 * started with, so that a recurrent student learns over time.
 */

import { readMetrics } from "../../algorithms/losses/loss-metrics.ts";
import type { TokenLoss } from "../../algorithms/losses/loss-output.ts";
import { maskedMean } from "../../algorithms/masked.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import type { Optimizer } from "../../torch/optim/optimizer.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { meanMetrics } from "../../training/mean-metrics.ts";
import { shuffledMinibatches } from "../ppo/minibatches.ts";
import { actionMeanLoss } from "./action-matching.ts";
import type { AdaptationBatch } from "./batch.ts";
import { latentMatchingLoss } from "./latent-matching.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";

/** The settings of the regression. */
export interface RegressionOptions {
  readonly adaptEpochs: number;
  readonly adaptMinibatches: number;
  /**
   * The latent that the student's actor is fed while it learns the teacher's actions. `encoded`, as in HDMI: it learns what the
   * teacher does with a true latent. `predicted`: it learns to make up for the errors of its own.
   */
  readonly imitateOn: "encoded" | "predicted";
  readonly maxGradNorm: number;
}

/** Who is trained, and by what. */
export interface RegressionParts {
  readonly policy: AdaptationPolicy;
  /** Of the adapt module. */
  readonly adaptOptimizer: Optimizer;
  /** Of the student's actor, where it learns the teacher's actions; null where it does not. */
  readonly imitationOptimizer: Optimizer | null;
}

/** MSE(predicted latent, sg encoder's latent), and MSE(student's mean, sg teacher's mean), each with its own optimizer. */
export function trainAdapt(
  parts: RegressionParts,
  batch: AdaptationBatch,
  options: RegressionOptions,
  random: Random,
): Metrics {
  const records: Metrics[] = [];
  tensorScope(() => {
    const sequences = sequencesOf(parts, batch);
    for (let epoch = 0; epoch < options.adaptEpochs; epoch++) {
      for (const own of shuffledMinibatches(sequences, options.adaptMinibatches, random)) {
        records.push(tensorScope(() => regress(parts, own, options)));
      }
    }
  });
  return meanMetrics(records);
}

/** The ticks of N environments, an environment per row. */
type Sequences = {
  readonly observations_NTO: Tensor;
  readonly isFirst_NT: Tensor;
  readonly carry_NC: Tensor;
  /** The teacher's, who does not learn here. */
  readonly latents_NTZ: Tensor;
  /** The teacher's, where the student learns them. */
  readonly means_NTA?: Tensor;
};

function sequencesOf({ policy, imitationOptimizer }: RegressionParts, batch: AdaptationBatch): Sequences {
  return noGrad(() => {
    const observations_NTO = batch.observations_TNO.transpose(0, 1);
    const latents_NTZ = policy.encode(observations_NTO);
    return {
      observations_NTO,
      isFirst_NT: batch.isFirst_TN.transpose(0, 1),
      carry_NC: batch.carry_NC,
      latents_NTZ,
      ...(imitationOptimizer && { means_NTA: policy.means("actor", observations_NTO, latents_NTZ) }),
    };
  });
}

function regress(parts: RegressionParts, sequences: Sequences, options: RegressionOptions): Metrics {
  const { policy, adaptOptimizer, imitationOptimizer } = parts;
  const { observations_NTO, isFirst_NT, carry_NC, latents_NTZ, means_NTA } = sequences;
  const { latents_TNZ } = policy.predict(
    "adaptModule",
    observations_NTO.transpose(0, 1),
    isFirst_NT.transpose(0, 1),
    carry_NC,
  );
  const predicted_NTZ = latents_TNZ.transpose(0, 1);
  // At its first tick a student has seen nothing to infer from.
  const lossMask_BT = isFirst_NT.logicalNot();
  const latentLoss = latentMatchingLoss(
    { studentLatents_BTZ: predicted_NTZ, teacherLatents_BTZ: latents_NTZ, lossMask_BT },
    { teacherPull: 0 },
  );
  const metrics = descend(latentLoss, lossMask_BT, adaptOptimizer, options.maxGradNorm);
  if (imitationOptimizer === null || means_NTA === undefined) return metrics;
  const fed_NTZ = options.imitateOn === "encoded" ? latents_NTZ : predicted_NTZ.detach();
  const actionLoss = actionMeanLoss({
    studentMeans_BTA: policy.means("actorAdapt", observations_NTO, fed_NTZ),
    teacherMeans_BTA: means_NTA,
    lossMask_BT,
  });
  return { ...metrics, ...descend(actionLoss, lossMask_BT, imitationOptimizer, options.maxGradNorm) };
}

function descend({ loss_BT, metrics }: TokenLoss, lossMask_BT: Tensor, optimizer: Optimizer, maxGradNorm: number) {
  optimizer.zeroGrad();
  maskedMean(loss_BT, lossMask_BT).backward();
  clipGradNorm(
    optimizer.groups.flatMap((group) => [...group.parameters.values()]),
    maxGradNorm,
  );
  optimizer.step();
  optimizer.zeroGrad();
  return readMetrics(metrics);
}
