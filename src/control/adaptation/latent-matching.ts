/** The loss by which a student learns the latents of its teacher, and the teacher to encode what a student can infer. */
import { expectAlike, expectMask, expectRange } from "../../algorithms/expect-batch.ts";
import { expectTokens } from "../../algorithms/losses/expect-tokens.ts";
import { liveTokens } from "../../algorithms/losses/live-tokens.ts";
import { meanOver, shareOf } from "../../algorithms/losses/loss-metrics.ts";
import type { TokenLoss } from "../../algorithms/losses/loss-output.ts";
import { zeroOutside } from "../../algorithms/masked.ts";
import type { Tensor } from "../../torch/tensor.ts";

interface LatentMatchingInputs {
  /** Latents that the student infers from its own observations. */
  readonly studentLatents_BTZ: Tensor;
  /** Latents that the teacher encodes from privileged observations. */
  readonly teacherLatents_BTZ: Tensor;
  readonly lossMask_BT: Tensor;
}

interface LatentMatchingOptions {
  /**
   * Weight of the second term, which pulls the teacher towards the student. 0 is plain regression (RMA, and the PPO-ROA of
   * HDMI); above 0 the teacher learns to use only what the student can infer.
   */
  readonly teacherPull: number;
}

/**
 * mean_z (student - sg teacher)^2 + teacherPull mean_z (sg student - teacher)^2, sg holding its argument fixed.
 *
 * RMA (arXiv:2107.04034); both directions: regularized online adaptation, Fu et al. 2022 (arXiv:2210.10044).
 */
export function latentMatchingLoss(inputs: LatentMatchingInputs, { teacherPull }: LatentMatchingOptions): TokenLoss {
  const { studentLatents_BTZ, teacherLatents_BTZ, lossMask_BT } = inputs;
  expectRange("teacherPull", teacherPull, 0);
  expectMask({ lossMask_BT });
  expectAlike({ studentLatents_BTZ, teacherLatents_BTZ });
  expectTokens({ studentLatents_BTZ }, lossMask_BT);
  const live_BT = liveTokens(lossMask_BT, [studentLatents_BTZ, teacherLatents_BTZ]);
  const student_BTZ = zeroOutside(studentLatents_BTZ, live_BT.unsqueeze(2));
  const teacher_BTZ = zeroOutside(teacherLatents_BTZ, live_BT.unsqueeze(2));
  const error_BT = student_BTZ.sub(teacher_BTZ.detach()).square().mean(2);
  const pull_BT = student_BTZ.detach().sub(teacher_BTZ).square().mean(2);
  return {
    level: "token",
    loss_BT: teacherPull === 0 ? error_BT : error_BT.add(pull_BT.mul(teacherPull)),
    metrics: {
      "student/latent_error": meanOver(live_BT, error_BT),
      "student/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), error_BT),
    },
  };
}
