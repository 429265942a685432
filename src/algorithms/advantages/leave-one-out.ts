/** RLOO: the baseline of a sample is the mean of the other samples for its prompt. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { momentsOf, type Singleton } from "./normalize-groups.ts";

/**
 * A_i = r_i - mean_{j != i} r_j = n / (n - 1) (r_i - mean_g). Unbiased, since the baseline does not depend on the
 * sample.
 *
 * Source: RLOO, arXiv:2402.14740, after Kool et al. 2019.
 */
export function leaveOneOut(
  rewards_B: Tensor,
  groupOf: readonly number[],
  { singleton = "zero" }: { readonly singleton?: Singleton } = {},
): Tensor {
  expectRows({ rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  const rewards = readFinite("rewards_B", rewards_B);
  const advantages = new Array<number>(rewards.length);
  for (const rows of groupRows(groupOf)) {
    const { mean, count } = momentsOf(rows.map((row) => rewards[row]!));
    for (const row of rows) {
      if (count === 1) advantages[row] = singleton === "zero" ? 0 : rewards[row]!;
      else advantages[row] = ((rewards[row]! - mean) * count) / (count - 1);
    }
  }
  return writeRows(advantages, rewards_B);
}
