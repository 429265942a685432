/** Pass@k: only the best sample for a prompt counts, by how much it beats the second best. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectRange, expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { momentsOf } from "./normalize-groups.ts";

export interface PassAtKOptions {
  /** Divide by the unbiased deviation of the group plus epsilon. Default true. */
  readonly scaleByStd?: boolean;
  /** Default 1e-6, as in verl. */
  readonly epsilon?: number;
}

/**
 * A_best = (r_best - r_second) / (std_g + epsilon), 0 for all others: what the objective max_i r_i loses without the
 * sample. Ties for the best, and groups of one sample, give 0.
 *
 * Source: arXiv:2503.19595, the leave-one-out form with k the size of the group.
 */
export function passAtK(
  rewards_B: Tensor,
  groupOf: readonly number[],
  { scaleByStd = true, epsilon = 1e-6 }: PassAtKOptions = {},
): Tensor {
  expectRows({ rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  expectRange("epsilon", epsilon, 0);
  const rewards = readFinite("rewards_B", rewards_B);
  const advantages = new Array<number>(rewards.length).fill(0);
  for (const rows of groupRows(groupOf)) {
    const [best, second] = rows.toSorted((a, b) => rewards[b]! - rewards[a]!);
    if (best === undefined || second === undefined || rewards[best] === rewards[second]) continue;
    const { deviation } = momentsOf(rows.map((row) => rewards[row]!));
    advantages[best] = (rewards[best]! - rewards[second]!) / (scaleByStd ? deviation + epsilon : 1);
  }
  return writeRows(advantages, rewards_B);
}
