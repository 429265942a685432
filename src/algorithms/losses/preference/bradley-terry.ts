import { onesLike } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectRange, expectRows } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { SequenceLoss } from "../loss-output.ts";

interface BradleyTerryInputs {
  /** Scores of the reward model being trained. */
  readonly chosenScores_B: Tensor;
  readonly rejectedScores_B: Tensor;
  /** How much better the chosen reply is said to be. Default 0. */
  readonly margins_B?: Tensor;
}

interface BradleyTerryOptions {
  /** Weight of (chosen + rejected)^2, which keeps scores centered around 0. Default 0; 0.01 is usual. */
  readonly centering?: number;
}

/**
 * -log sigmoid(chosen - rejected - margin) + centering (chosen + rejected)^2 per pair.
 *
 * Bradley and Terry 1952; as a reward-model loss: InstructGPT (arXiv:2203.02155), eq. 1; margin: Llama 2 (arXiv:2307.09288);
 * centering: Eisenstein et al. 2023 (arXiv:2312.09244). Pairs with NaN or infinite scores have loss 0 and gradient 0.
 */
export function bradleyTerryLoss(
  inputs: BradleyTerryInputs,
  { centering = 0 }: BradleyTerryOptions = {},
): SequenceLoss {
  const { chosenScores_B, rejectedScores_B, margins_B } = inputs;
  expectRange("centering", centering, 0);
  expectRows({ chosenScores_B, rejectedScores_B, ...(margins_B && { margins_B }) });
  const raw_B = chosenScores_B.sub(rejectedScores_B);
  const live_B = (margins_B ? raw_B.add(margins_B) : raw_B).detach().isFinite();
  const gap_B = zeroOutside(raw_B, live_B);
  const lead_B = margins_B ? gap_B.sub(zeroOutside(margins_B.detach(), live_B)) : gap_B;
  const offset_B = zeroOutside(chosenScores_B.add(rejectedScores_B), live_B);
  const loss_B = offset_B.square().mul(centering).sub(lead_B.logSigmoid());
  return {
    level: "sequence",
    loss_B: zeroOutside(loss_B, live_B),
    metrics: {
      "preference/accuracy": shareOf(live_B, gap_B.gt(0), gap_B),
      "preference/margin": meanOver(live_B, gap_B),
      "preference/score": meanOver(live_B, offset_B.mul(0.5)),
      "preference/nonfinite_fraction": shareOf(onesLike(live_B), live_B.logicalNot(), gap_B),
    },
  };
}
