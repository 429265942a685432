/** What an update of a policy and one of a critic apart from it have in common: denominators, passes, and the norm of a critic's gradients. */
import { globalDenominators } from "../algorithms/reduce.ts";
import type { ValueRows } from "../flow/token-batch.ts";
import type { GradientBound } from "../torch/optim/clip-grad-norm.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Critic } from "./measure-rows.ts";
import { intersect, passesOf } from "./split-batch.ts";
import type { Strategy } from "./strategy/strategy.ts";
import type { Grid, RowTokens } from "./token-rows.ts";

interface UpdateRows {
  readonly grid: Grid<RowTokens>;
  /** The rows of each rank, by share. */
  readonly shares: readonly (readonly number[])[];
  /** Those of the update. */
  readonly rows: readonly number[];
  readonly maxTokens: number;
  readonly lengthOf?: (row: number) => number;
}

/** Those rows of an update that each rank has, and the passes of this one over its own. */
export function updateShares(strategy: Strategy, { grid, shares, rows, ...limits }: UpdateRows) {
  const trained = shares.map((share) => intersect(rows, share));
  return { trained, ...passesOf(strategy, grid, trained, { kind: "update", ...limits }) };
}

/** The denominators of an update: those of all its rows, whichever rank has them. */
export function updateDenominators(
  select: () => Pick<ValueRows, "lossMask_BT" | "groupOf" | "trajectoryOf">,
): ReturnType<typeof globalDenominators> {
  return tensorScope(() => {
    const { lossMask_BT, groupOf, trajectoryOf } = select();
    return globalDenominators(lossMask_BT, groupOf, trajectoryOf);
  });
}

/** See Strategy.boundGradients. */
export function boundCritic(strategy: Strategy, { model, head }: Critic, maxGradNorm: number): GradientBound {
  return strategy.boundGradients([...model.trainableParameters(), ...head.trainableParameters()], maxGradNorm);
}
