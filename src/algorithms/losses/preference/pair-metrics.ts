import type { LossMetrics } from "../../../flow/batch-statistics.ts";
import { onesLike } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";

/** Metrics of pairs whose replies have an implicit reward each; pairs outside `live_B` are counted and left out. */
export function pairMetrics(live_B: Tensor, chosenRewards_B: Tensor, rejectedRewards_B: Tensor): LossMetrics {
  const margins_B = zeroOutside(chosenRewards_B.sub(rejectedRewards_B), live_B).detach();
  return {
    "preference/accuracy": shareOf(live_B, margins_B.gt(0), margins_B),
    "preference/margin": meanOver(live_B, margins_B),
    "preference/chosen_reward": meanOver(live_B, chosenRewards_B),
    "preference/rejected_reward": meanOver(live_B, rejectedRewards_B),
    "preference/nonfinite_fraction": shareOf(onesLike(live_B), live_B.logicalNot(), margins_B),
  };
}
