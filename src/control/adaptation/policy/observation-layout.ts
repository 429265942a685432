/**
 * The parts of an observation that each network may read.
 *
 * In: the slices that a vector environment names. Out: the columns of some groups, joined in the order they were asked for. A
 * student that never gets the privileged columns cannot learn to depend on them.
 */
import { RerollError } from "../../../errors/reroll-error.ts";
import { cat } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";

/** cmd: the task; obs: what the robot senses; object: what it senses of an object; priv: what only the simulator knows. */
export type ObservationGroup = "cmd" | "obs" | "object" | "priv";

/** Adjacent columns. */
interface GroupSlice {
  readonly start: number;
  readonly size: number;
}

/** The columns of every group. A group that the environment does not have has size 0. */
export type ObservationLayout = Readonly<Record<ObservationGroup, GroupSlice>>;

const ABSENT: GroupSlice = { start: 0, size: 0 };

/** The layout of an environment's groups. `obs` and `priv` must be there; `cmd` and `object` may be missing. */
export function layoutOf(groups: Readonly<Record<string, GroupSlice>> | undefined): ObservationLayout {
  const { cmd = ABSENT, obs, object = ABSENT, priv } = groups ?? {};
  if (obs !== undefined && priv !== undefined) return { cmd, obs, object, priv };
  throw new RerollError(
    "MISSING_GROUP",
    `Adaptation needs an environment with the observation groups obs and priv: got ` +
      `${Object.keys(groups ?? {}).join(", ") || "none"}. Name the slices in observationGroups; cmd and object are optional.`,
    { groups: Object.keys(groups ?? {}) },
  );
}

/** The number of columns that these groups have together. */
export function widthOf(layout: ObservationLayout, groups: readonly ObservationGroup[]): number {
  return groups.reduce((sum, group) => sum + layout[group].size, 0);
}

/** The columns of these groups, [..., O] to [..., width], in the order of the list. */
export function readGroups(
  observations: Tensor,
  layout: ObservationLayout,
  groups: readonly ObservationGroup[],
): Tensor {
  const parts = groups
    .filter((group) => layout[group].size > 0)
    .map((group) => observations.narrow(-1, layout[group].start, layout[group].size));
  return parts.length === 1 ? parts[0]! : cat(parts, -1);
}
