/** ReMax: the baseline is the reward of the greedy reply. */
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectFinite } from "../expect-batch.ts";
import { discountedReturns, type RewardsOutsideMask } from "./discounted-returns.ts";
import type { TokenAdvantages } from "./gae.ts";
import { toTokens } from "./token-values.ts";

/**
 * A_t = sum_{s >= t} r_s - b_i, b the reward of the greedy reply to the same prompt.
 *
 * Source: ReMax, arXiv:2310.10505, algorithm 1.
 */
export function remax(
  rewards_BT: Tensor,
  greedyRewards_B: Tensor,
  lossMask_BT: Tensor,
  { rewardsOutsideMask = "credit" }: { readonly rewardsOutsideMask?: RewardsOutsideMask } = {},
): TokenAdvantages {
  expectBatch(lossMask_BT, { rewards_BT }, { greedyRewards_B });
  expectFinite({ greedyRewards_B });
  const returns_BT = discountedReturns(rewards_BT, lossMask_BT, { rewardsOutsideMask });
  const advantages_BT = tensorScope(() => returns_BT.sub(toTokens(greedyRewards_B.detach(), lossMask_BT)));
  return { advantages_BT, returns_BT };
}
