/** GPG: the plain policy gradient on centered rewards, rescaled to make up for samples that carry no signal. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectPositive, expectRows } from "../expect-batch.ts";
import { expectKeys, groupRows } from "./group-rows.ts";
import { readFinite, writeRows } from "./host-values.ts";
import { normalizeGroups, type Singleton } from "./normalize-groups.ts";

export interface GpgOptions {
  /**
   * Which samples carry signal. `groups`: those of groups whose rewards differ, the zero-gradient samples of the paper
   * left out (the default). `rewards`: those whose reward is not 0, as verl counts them.
   */
  readonly countBy?: "groups" | "rewards";
  /** The F_norm of the paper. Default 1. */
  readonly normalizer?: number;
  readonly singleton?: Singleton;
}

/**
 * A_i = alpha (r_i - mean_g) / F, alpha = B / M for M samples that carry signal; B when none does.
 *
 * Source: GPG, arXiv:2504.02546.
 */
export function gpg(
  rewards_B: Tensor,
  groupOf: readonly number[],
  { countBy = "groups", normalizer = 1, singleton = "zero" }: GpgOptions = {},
): Tensor {
  expectRows({ rewards_B });
  expectKeys("groupOf", groupOf, rewards_B.size(0));
  expectPositive("normalizer", normalizer);
  const rewards = Array.from(readFinite("rewards_B", rewards_B));
  const groups = groupRows(groupOf);
  const centered = normalizeGroups(rewards, groups, { mean: "group", deviation: "none", singleton });
  const numUseful = countBy === "rewards" ? countNonzero(rewards) : countInMixedGroups(centered, groups);
  const alpha = rewards.length / Math.max(numUseful, 1);
  return writeRows(
    centered.map((value) => (alpha * value) / normalizer),
    rewards_B,
  );
}

function countNonzero(values: readonly number[]): number {
  return values.filter((value) => value !== 0).length;
}

// A sample's reward may equal the mean of a mixed group, up to rounding, so groups are counted and not samples.
function countInMixedGroups(centered: readonly number[], groups: readonly (readonly number[])[]): number {
  return groups.filter((rows) => rows.some((row) => centered[row] !== 0)).reduce((sum, rows) => sum + rows.length, 0);
}
