/** Groups whose samples all scored the same have no advantage to learn from. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectKeys } from "../advantages/group-rows.ts";
import { readFinite } from "../advantages/host-values.ts";
import { expectRange, expectRows } from "../expect-batch.ts";
import { decideByGroup } from "./row-filter.ts";

interface ZeroVarianceOptions {
  /** Rewards of a group that differ by at most this count as equal. Default 0. */
  readonly tolerance?: number;
}

/**
 * Per row, whether the rewards of its group differ: max - min > tolerance. A group of one sample never does.
 *
 * Source: DAPO, arXiv:2503.14476, section 3.2 (dynamic sampling).
 */
export function hasVariance(
  rewards_B: Tensor,
  groupOf: readonly number[],
  { tolerance = 0 }: ZeroVarianceOptions = {},
): boolean[] {
  expectRows({ rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  expectRange("tolerance", tolerance, 0);
  const rewards = readFinite("rewards_B", rewards_B);
  return decideByGroup(groupOf, (rows) => {
    const largest = rows.reduce((high, row) => Math.max(high, rewards[row]!), Number.NEGATIVE_INFINITY);
    const smallest = rows.reduce((low, row) => Math.min(low, rewards[row]!), Number.POSITIVE_INFINITY);
    return largest - smallest > tolerance;
  });
}
