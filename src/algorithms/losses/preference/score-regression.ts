import { onesLike } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { SequenceLoss } from "../loss-output.ts";

interface ScoreRegressionInputs {
  /** Scores of the reward model being trained. */
  readonly scores_B: Tensor;
  /** Scores that the replies were given. */
  readonly targets_B: Tensor;
}

/**
 * (score - target)^2 per reply: a reward model that learns ratings, as HelpSteer's do (Wang et al. 2023, arXiv:2311.09528).
 * Replies with a NaN or infinite score have loss 0 and gradient 0.
 */
export function scoreRegressionLoss({ scores_B, targets_B }: ScoreRegressionInputs): SequenceLoss {
  expectRows({ scores_B, targets_B });
  const raw_B = scores_B.sub(targets_B.detach());
  const live_B = raw_B.detach().isFinite();
  const error_B = zeroOutside(raw_B, live_B);
  return {
    level: "sequence",
    loss_B: error_B.square(),
    metrics: {
      "preference/score": meanOver(live_B, scores_B),
      "preference/score_error": meanOver(live_B, error_B.abs()),
      "preference/nonfinite_fraction": shareOf(onesLike(live_B), live_B.logicalNot(), error_B),
    },
  };
}
