import { type GroupRelativeOptions, groupRelative } from "../advantages/group-relative.ts";
import type { Estimator } from "./recipe.ts";
import { rowEstimate } from "./row-estimate.ts";

/** Rewards relative to their group, the estimator of most recipes without a critic. */
export function groupEstimate({
  scale,
  singleton,
}: Required<Pick<GroupRelativeOptions, "scale" | "singleton">>): Estimator {
  return rowEstimate(({ rewards_B, groupOf }) => groupRelative(rewards_B, groupOf, { scale, singleton }));
}
