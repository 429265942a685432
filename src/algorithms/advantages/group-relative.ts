/** GRPO: how much better a sample is than the others for its prompt. */
import type { Tensor } from "../../torch/tensor.ts";
import type { Singleton } from "./normalize-groups.ts";
import { normalizeRewards } from "./normalize-rewards.ts";

export interface GroupRelativeOptions {
  /**
   * What the centered reward is divided by: the deviation of the group (GRPO, the default), of the whole batch (Lite
   * PPO), or nothing (Dr. GRPO, which shows that the group deviation favors prompts that are too easy or too hard).
   */
  readonly scale?: "group-std" | "batch-std" | "none";
  /** Added to the deviation. Default 1e-6, as in verl. */
  readonly epsilon?: number;
  readonly singleton?: Singleton;
}

/**
 * A_i = (r_i - mean_g) / (std_g + epsilon), or without the division; std is unbiased. Zero when all rewards of a group
 * are equal.
 *
 * Sources: GRPO, arXiv:2402.03300, section 4.1.2; Dr. GRPO, arXiv:2503.20783, section 3.
 */
export function groupRelative(
  rewards_B: Tensor,
  groupOf: readonly number[],
  { scale = "group-std", epsilon = 1e-6, singleton = "zero" }: GroupRelativeOptions = {},
): Tensor {
  const deviation = scale === "none" ? "none" : scale === "group-std" ? "group" : "batch";
  return normalizeRewards(rewards_B, groupOf, { mean: "group", deviation, epsilon, singleton });
}
