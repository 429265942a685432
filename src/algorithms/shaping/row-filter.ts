/** Filters rows: one flag per row says whether it trains, and the loss mask loses the others. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { GroupKey } from "../../flow/token-batch.ts";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { groupRows } from "../advantages/group-rows.ts";
import { expectBatch } from "../expect-batch.ts";

/** The mask with all tokens of the rows that are not kept set to false. They then count in no denominator either. */
export function keepRows(lossMask_BT: Tensor, isKept: readonly boolean[]): Tensor {
  expectBatch(lossMask_BT);
  if (isKept.length !== lossMask_BT.size(0)) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `isKept has ${isKept.length} entries for ${lossMask_BT.size(0)} rows. It must have one per row.`,
    );
  }
  return tensorScope(() => {
    const kept_B = tensor(isKept.map(Number), { dtype: "bool", device: lossMask_BT.device });
    return lossMask_BT.logicalAnd(kept_B.unsqueeze(1));
  });
}

/** One decision for all rows of a group. */
export function decideByGroup(groupOf: readonly GroupKey[], decide: (rows: readonly number[]) => boolean): boolean[] {
  const isKept = new Array<boolean>(groupOf.length);
  for (const rows of groupRows(groupOf)) {
    const decision = decide(rows);
    for (const row of rows) isKept[row] = decision;
  }
  return isKept;
}
