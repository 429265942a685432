/** Losses by which a student imitates the actions of its teacher: their means, or the whole Gaussian. */

import { expectAlike, expectMask, type NamedTensors } from "../../algorithms/expect-batch.ts";
import { expectTokens } from "../../algorithms/losses/expect-tokens.ts";
import { liveTokens } from "../../algorithms/losses/live-tokens.ts";
import { meanOver, shareOf } from "../../algorithms/losses/loss-metrics.ts";
import type { TokenLoss } from "../../algorithms/losses/loss-output.ts";
import { zeroOutside } from "../../algorithms/masked.ts";
import type { Tensor } from "../../torch/tensor.ts";

interface ActionMeanInputs {
  readonly studentMeans_BTA: Tensor;
  readonly teacherMeans_BTA: Tensor;
  readonly lossMask_BT: Tensor;
}

/** Means and log standard deviations of independent normal distributions. */
interface ActionKlInputs extends ActionMeanInputs {
  readonly studentLogStds_BTA: Tensor;
  readonly teacherLogStds_BTA: Tensor;
}

interface ActionKlOptions {
  /** forward: KL(teacher || student); reverse: KL(student || teacher). */
  readonly direction: "forward" | "reverse";
}

/** Log standard deviations are clipped to [-20, 20], where variances are finite in float32. */
const LOG_STD_BOUND = 20;

/** mean_a (student mean - teacher mean)^2 with the teacher held fixed. DAgger (arXiv:1011.0686) for continuous actions. */
export function actionMeanLoss({ studentMeans_BTA, teacherMeans_BTA, lossMask_BT }: ActionMeanInputs): TokenLoss {
  const live_BT = expectActions({ studentMeans_BTA, teacherMeans_BTA }, lossMask_BT);
  const live_BT1 = live_BT.unsqueeze(2);
  const gap_BTA = zeroOutside(studentMeans_BTA, live_BT1).sub(zeroOutside(teacherMeans_BTA.detach(), live_BT1));
  return actionOutput("student/action_error", gap_BTA.square().mean(2), live_BT, lossMask_BT);
}

/**
 * sum_a log(s_q / s_p) + (s_p^2 + (m_p - m_q)^2) / (2 s_q^2) - 1/2 = KL(p || q), with the teacher held fixed: p is the
 * teacher and q the student for `forward`, the other way round for `reverse`.
 */
export function actionKlLoss(inputs: ActionKlInputs, { direction }: ActionKlOptions): TokenLoss {
  const { studentMeans_BTA, studentLogStds_BTA, teacherMeans_BTA, teacherLogStds_BTA, lossMask_BT } = inputs;
  const all = { studentMeans_BTA, studentLogStds_BTA, teacherMeans_BTA, teacherLogStds_BTA };
  const live_BT = expectActions(all, lossMask_BT);
  const gaussian = (means_BTA: Tensor, logStds_BTA: Tensor): Gaussian => ({
    means_BTA: zeroOutside(means_BTA, live_BT.unsqueeze(2)),
    logStds_BTA: zeroOutside(logStds_BTA, live_BT.unsqueeze(2)).clamp(-LOG_STD_BOUND, LOG_STD_BOUND),
  });
  const student = gaussian(studentMeans_BTA, studentLogStds_BTA);
  const teacher = gaussian(teacherMeans_BTA.detach(), teacherLogStds_BTA.detach());
  const kl_BTA = direction === "forward" ? gaussianKl(teacher, student) : gaussianKl(student, teacher);
  return actionOutput(`student/action_${direction}_kl`, kl_BTA.sum(2), live_BT, lossMask_BT);
}

interface Gaussian {
  readonly means_BTA: Tensor;
  readonly logStds_BTA: Tensor;
}

function gaussianKl(p: Gaussian, q: Gaussian): Tensor {
  const logStdRatio_BTA = q.logStds_BTA.sub(p.logStds_BTA);
  const gap_BTA = p.means_BTA.sub(q.means_BTA).mul(q.logStds_BTA.neg().exp());
  return logStdRatio_BTA.add(logStdRatio_BTA.mul(-2).exp().add(gap_BTA.square()).mul(0.5)).sub(0.5);
}

function expectActions(actions: NamedTensors, lossMask_BT: Tensor): Tensor {
  expectMask({ lossMask_BT });
  expectAlike(actions);
  expectTokens(actions, lossMask_BT);
  return liveTokens(lossMask_BT, Object.values(actions));
}

function actionOutput(name: string, loss_BT: Tensor, live_BT: Tensor, lossMask_BT: Tensor): TokenLoss {
  return {
    level: "token",
    loss_BT,
    metrics: {
      [name]: meanOver(live_BT, loss_BT),
      "student/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), loss_BT),
    },
  };
}
