/**
 * The student learns from the teacher: its latent from the encoder's, its actions from the teacher's.
 *
 * In: a rollout as tensors, whoever acted in it. Out: metrics; the adapt module has changed, and in some phases the student's
 * actor. The teacher is only read. Minibatches are whole sequences of some environments, starting from the memory that the
 * rollout started with, so that a recurrent student learns over time.
 */

import { readMetrics } from "../../algorithms/losses/loss-metrics.ts";
import type { TokenLoss } from "../../algorithms/losses/loss-output.ts";
import { maskedMean } from "../../algorithms/masked.ts";
import type { Random } from "../../random/random.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { meanMetrics } from "../../training/mean-metrics.ts";
import type { GradientStep, UpdateSummary } from "../ppo/gradient-step.ts";
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
   * The latent that the student's actor is fed while it learns the teacher's actions. `encoded`, as in HDMI, teaches it what the
   * teacher does with a true latent; `predicted` teaches it to make up for the errors of its own.
   */
  readonly imitateOn: "encoded" | "predicted";
  readonly maxGradNorm: number;
}

/** Who is trained, and by which optimizer. */
interface RegressionParts {
  readonly policy: AdaptationPolicy;
  /** Updates the adapt module. */
  readonly adaptStep: GradientStep;
  /** Updates the student's actor in phases in which it learns the teacher's actions; null in the others. */
  readonly imitationStep: GradientStep | null;
}

/** MSE(predicted latent, sg encoder's latent), and MSE(student's mean, sg teacher's mean), each with its own optimizer. */
export function trainAdapt(
  parts: RegressionParts,
  batch: AdaptationBatch,
  options: RegressionOptions,
  random: Random,
): UpdateSummary {
  const results: UpdateSummary[] = [];
  tensorScope(() => {
    const sequences = sequencesOf(parts, batch);
    for (let epoch = 0; epoch < options.adaptEpochs; epoch++) {
      for (const own of shuffledMinibatches(sequences, options.adaptMinibatches, random)) {
        results.push(tensorScope(() => regress(parts, own, options)));
      }
    }
  });
  return {
    metrics: meanMetrics(results.map(({ metrics }) => metrics)),
    numSkipped: results.reduce((sum, { numSkipped }) => sum + numSkipped, 0),
  };
}

/** The ticks of N environments, an environment per row. */
type Sequences = {
  readonly observations_NTO: Tensor;
  readonly isFirst_NT: Tensor;
  readonly carry_NC: Tensor;
  /** The encoder's latents, which are fixed here. */
  readonly latents_NTZ: Tensor;
  /** The teacher's mean actions, in phases in which the student learns them. */
  readonly means_NTA?: Tensor;
};

function sequencesOf({ policy, imitationStep }: RegressionParts, batch: AdaptationBatch): Sequences {
  return noGrad(() => {
    const observations_NTO = batch.observations_TNO.transpose(0, 1);
    const latents_NTZ = policy.encode(observations_NTO);
    return {
      observations_NTO,
      isFirst_NT: batch.isFirst_TN.transpose(0, 1),
      carry_NC: batch.carry_NC,
      latents_NTZ,
      ...(imitationStep && { means_NTA: policy.means("actor", observations_NTO, latents_NTZ) }),
    };
  });
}

/** One update of each network. */
function regress(parts: RegressionParts, sequences: Sequences, options: RegressionOptions): UpdateSummary {
  const { policy, adaptStep, imitationStep } = parts;
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
  const latents = descend(latentLoss, lossMask_BT, adaptStep, options.maxGradNorm);
  if (imitationStep === null || means_NTA === undefined) return latents;
  const fed_NTZ = options.imitateOn === "encoded" ? latents_NTZ : predicted_NTZ.detach();
  const actionLoss = actionMeanLoss({
    studentMeans_BTA: policy.means("actorAdapt", observations_NTO, fed_NTZ),
    teacherMeans_BTA: means_NTA,
    lossMask_BT,
  });
  const actions = descend(actionLoss, lossMask_BT, imitationStep, options.maxGradNorm);
  return {
    metrics: { ...latents.metrics, ...actions.metrics },
    numSkipped: latents.numSkipped + actions.numSkipped,
  };
}

function descend(
  { loss_BT, metrics }: TokenLoss,
  lossMask_BT: Tensor,
  step: GradientStep,
  maxGradNorm: number,
): UpdateSummary {
  const norms = step.take(maskedMean(loss_BT, lossMask_BT), maxGradNorm);
  return norms === null ? { metrics: {}, numSkipped: 1 } : { metrics: readMetrics(metrics), numSkipped: 0 };
}
