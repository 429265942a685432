/**
 * MaxRL: centered rewards divided by the mean of the group, so that rare successes weigh as much as in maximum
 * likelihood.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { momentsOf } from "./normalize-groups.ts";

/**
 * A_i = (r_i - mean_g) / mean_g. Rewards must not be negative. A group whose rewards are all 0 has no success to learn
 * from, and gives 0.
 *
 * Source: MaxRL, arXiv:2602.02710.
 */
export function maxRl(rewards_B: Tensor, groupOf: readonly number[]): Tensor {
  expectRows({ rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  const rewards = readFinite("rewards_B", rewards_B);
  const negative = rewards.findIndex((reward) => reward < 0);
  if (negative !== -1) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `rewards_B[${negative}] is ${rewards[negative]}. MaxRL divides by the mean reward of a group, so rewards must be ` +
        "at least 0: score success from 0 to 1 and add penalties elsewhere.",
      { row: negative, reward: rewards[negative] },
    );
  }
  const advantages = new Array<number>(rewards.length);
  for (const rows of groupRows(groupOf)) {
    const { mean } = momentsOf(rows.map((row) => rewards[row]!));
    for (const row of rows) advantages[row] = mean > 0 ? (rewards[row]! - mean) / mean : 0;
  }
  return writeRows(advantages, rewards_B);
}
