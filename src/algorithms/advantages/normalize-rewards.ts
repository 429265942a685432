/** Rewards normalized by any key: the prompt, the domain, a tag, the whole batch. */

import type { GroupKey } from "../../flow/token-batch.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { type NormalizeOptions, normalizeGroups } from "./normalize-groups.ts";

/**
 * (r - mean) / (deviation + epsilon), with either statistic taken over the rows of a key, over the batch, or left out.
 *
 * `{ mean: "group", deviation: "group" }` by prompt is GRPO, `{ mean: "group", deviation: "batch" }` is Lite PPO
 * (arXiv:2508.08221), and ROLL normalizes by tag or by group of trajectories. Rewards without spread give 0.
 */
export function normalizeRewards(rewards_B: Tensor, keyOf: readonly GroupKey[], options: NormalizeOptions): Tensor {
  expectRows({ rewards_B });
  expectKeys("keyOf", keyOf, rewards_B.size(0));
  const rewards = Array.from(readFinite("rewards_B", rewards_B));
  return writeRows(normalizeGroups(rewards, groupRows(keyOf), options), rewards_B);
}
