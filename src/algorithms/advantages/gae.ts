/** Generalized advantage estimation over the tokens of a reply or of a whole dialogue. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import type { RewardsOutsideMask } from "./discounted-returns.ts";
import { floatsLike, readBools, readFinite, writeLike } from "./host-values.ts";

export interface GaeInputs {
  readonly rewards_BT: Tensor;
  /** The critic's value before each token. Read where the mask holds. */
  readonly values_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /**
   * The critic's value after the last token of a row that a limit cut short; 0 for a row whose task ended. Without it
   * every row counts as ended.
   */
  readonly bootstrapValues_B?: Tensor;
}

export interface GaeOptions {
  /** Discount per loss token, in [0, 1]. Default 1. */
  readonly gamma?: number;
  /** Trade-off between bias (0) and variance (1). Default 0.95, as in ROLL. */
  readonly lambda?: number;
  readonly rewardsOutsideMask?: RewardsOutsideMask;
}

/** Advantages and returns. Both are 0 outside the mask, and constant: no gradient flows through them. */
export interface TokenAdvantages {
  readonly advantages_BT: Tensor;
  /** Targets of the critic: the advantage, before any normalization, plus the value. */
  readonly returns_BT: Tensor;
}

/**
 * delta_t = r_t + gamma V_{t'} - V_t,  A_t = delta_t + gamma lambda A_{t'},  R_t = A_t + V_t
 *
 * t' is the next loss token. Observation tokens in between are skipped: they have no value of their own and discount
 * nothing. After the last loss token V is the bootstrap value and A is 0. Whitening is a piece of its own.
 *
 * Source: GAE, arXiv:1506.02438, eq. 16; observations are skipped as in verl.
 */
export function gae(
  { rewards_BT, values_BT, lossMask_BT, bootstrapValues_B }: GaeInputs,
  { gamma = 1, lambda = 0.95, rewardsOutsideMask = "credit" }: GaeOptions = {},
): TokenAdvantages {
  expectBatch(lossMask_BT, { rewards_BT, values_BT }, bootstrapValues_B === undefined ? {} : { bootstrapValues_B });
  expectRange("gamma", gamma, 0, 1);
  expectRange("lambda", lambda, 0, 1);
  const [B, T] = [lossMask_BT.size(0), lossMask_BT.size(1)];
  const mask = readBools(lossMask_BT);
  const rewards = readFinite("rewards_BT", rewards_BT);
  const values = readFinite("values_BT", values_BT, mask);
  const bootstrap = bootstrapValues_B && readFinite("bootstrapValues_B", bootstrapValues_B);
  const advantages = floatsLike(values_BT);
  const returns = floatsLike(values_BT);
  for (let row = 0; row < B; row++) {
    let nextValue = bootstrap?.[row] ?? 0;
    let nextAdvantage = 0;
    let pending = 0;
    for (let at = row * T + T - 1; at >= row * T; at--) {
      if (mask[at] === 0) {
        if (rewardsOutsideMask === "credit") pending += rewards[at]!;
        continue;
      }
      const delta = rewards[at]! + pending + gamma * nextValue - values[at]!;
      nextAdvantage = delta + gamma * lambda * nextAdvantage;
      nextValue = values[at]!;
      pending = 0;
      advantages[at] = nextAdvantage;
      returns[at] = nextAdvantage + values[at]!;
    }
  }
  return {
    advantages_BT: writeLike(advantages, values_BT),
    returns_BT: writeLike(returns, values_BT),
  };
}
