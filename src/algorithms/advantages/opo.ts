/** OPO: the baseline that reduces variance most when the gradient of a sample grows with its length. */
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { momentsOf, type Singleton } from "./normalize-groups.ts";

/**
 * A_i = r_i - sum_j l_j r_j / sum_j l_j over the group, l the number of loss tokens. A group without any loss token
 * takes the plain mean.
 *
 * Source: OPO, arXiv:2505.23585.
 */
export function optimalBaseline(
  rewards_B: Tensor,
  lossMask_BT: Tensor,
  groupOf: readonly number[],
  { singleton = "zero" }: { readonly singleton?: Singleton } = {},
): Tensor {
  expectBatch(lossMask_BT, {}, { rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  const rewards = readFinite("rewards_B", rewards_B);
  const lengths = tensorScope(() => lossMask_BT.sum(1).toArray());
  const advantages = new Array<number>(rewards.length);
  for (const rows of groupRows(groupOf)) {
    const baseline = weightedMean(
      rows.map((row) => rewards[row]!),
      rows.map((row) => lengths[row]!),
    );
    const single = singleton === "zero" ? baseline : 0;
    for (const row of rows) advantages[row] = rewards[row]! - (rows.length === 1 ? single : baseline);
  }
  return writeRows(advantages, rewards_B);
}

function weightedMean(values: readonly number[], weights: readonly number[]): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (total === 0) return momentsOf(values).mean;
  const origin = values[0] ?? 0;
  return origin + values.reduce((sum, value, i) => sum + (value - origin) * weights[i]!, 0) / total;
}
