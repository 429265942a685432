import { type GroupRelativeOptions, groupRelative } from "../advantages/group-relative.ts";
import type { Estimator } from "./recipe.ts";
import { rowEstimate } from "./row-estimate.ts";

/** Rewards against their group, which most recipes without a critic share. */
export function groupEstimate({
  scale,
  singleton,
}: Required<Pick<GroupRelativeOptions, "scale" | "singleton">>): Estimator {
  return rowEstimate(({ rewards_B, groupOf }) => groupRelative(rewards_B, groupOf, { scale, singleton }));
}
