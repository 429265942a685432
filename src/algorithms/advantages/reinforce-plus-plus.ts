/** REINFORCE++: returns per token, normalized over the whole batch instead of over groups. */
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { whiten } from "../whiten.ts";
import { type DiscountedReturnsOptions, discountedReturns } from "./discounted-returns.ts";
import type { TokenAdvantages } from "./gae.ts";
import type { Singleton } from "./normalize-groups.ts";
import { normalizeRewards } from "./normalize-rewards.ts";
import { toTokens } from "./token-values.ts";

/**
 * A_t = whiten(G_t), G the discounted returns. The KL penalty of the paper is in the rewards: see penalizeRewards.
 *
 * Source: REINFORCE++, arXiv:2501.03262, section 3.
 */
export function reinforcePlusPlus(
  rewards_BT: Tensor,
  lossMask_BT: Tensor,
  options: DiscountedReturnsOptions = {},
): TokenAdvantages {
  const returns_BT = discountedReturns(rewards_BT, lossMask_BT, options);
  return { advantages_BT: tensorScope(() => whiten(returns_BT, lossMask_BT)), returns_BT };
}

/**
 * A_t = whiten(r_i - mean_g) at the tokens of each row: the group's mean as baseline, the batch's deviation as scale. A
 * long row weighs more in the mean and the deviation, since each of its tokens counts.
 *
 * Source: REINFORCE++-baseline, arXiv:2501.03262, section 3.
 */
export function reinforcePlusPlusBaseline(
  rewards_B: Tensor,
  lossMask_BT: Tensor,
  groupOf: readonly number[],
  { singleton = "zero" }: { readonly singleton?: Singleton } = {},
): Tensor {
  return tensorScope(() => {
    const centered_B = normalizeRewards(rewards_B, groupOf, { mean: "group", deviation: "none", singleton });
    return whiten(toTokens(centered_B, lossMask_BT), lossMask_BT);
  });
}
