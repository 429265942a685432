/** REINFORCE: the discounted reward from each token onward. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { floatsLike, readBools, readFinite, writeLike } from "./host-values.ts";

/**
 * What happens to a reward on a token that is not in the loss mask: an observation, or a token that was rejected.
 * - `credit`: it goes to the last loss token before it, the action it answers. The default, so that no reward is lost.
 * A reward before the first loss token has no action, and is dropped.
 * - `drop`: it is ignored, as verl does.
 */
export type RewardsOutsideMask = "credit" | "drop";

export interface DiscountedReturnsOptions {
  /** Discount per loss token, in [0, 1]. Default 1: an outcome counts in full for every token. */
  readonly gamma?: number;
  readonly rewardsOutsideMask?: RewardsOutsideMask;
}

/**
 * G_t = r_t + gamma G_{t'}, t' the next loss token; 0 outside the mask. Tokens between t and t' are skipped: they
 * neither discount nor hold a return.
 *
 * Source: REINFORCE (Williams 1992); observations are skipped as in verl's REINFORCE++.
 */
export function discountedReturns(
  rewards_BT: Tensor,
  lossMask_BT: Tensor,
  { gamma = 1, rewardsOutsideMask = "credit" }: DiscountedReturnsOptions = {},
): Tensor {
  expectBatch(lossMask_BT, { rewards_BT });
  expectRange("gamma", gamma, 0, 1);
  const [B, T] = [lossMask_BT.size(0), lossMask_BT.size(1)];
  const rewards = readFinite("rewards_BT", rewards_BT);
  const mask = readBools(lossMask_BT);
  const returns = floatsLike(rewards_BT);
  for (let row = 0; row < B; row++) {
    let next = 0;
    let pending = 0;
    for (let at = row * T + T - 1; at >= row * T; at--) {
      if (mask[at] === 0) {
        if (rewardsOutsideMask === "credit") pending += rewards[at]!;
        continue;
      }
      next = rewards[at]! + pending + gamma * next;
      pending = 0;
      returns[at] = next;
    }
  }
  return writeLike(returns, rewards_BT);
}
