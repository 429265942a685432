/**
 * Joins the rows of a forked trajectory into one, so that whatever is computed over samples or along time sees every
 * trajectory once and whole.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { TokenBatch } from "../../flow/token-batch.ts";
import { cat, tensor, zeros } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectGroups } from "../expect-batch.ts";
import { groupRows } from "./group-rows.ts";
import { readBools, readFloats } from "./host-values.ts";

/** Maps between B rows and the M trajectories they belong to. Where every row is a trajectory, nothing is moved. */
export interface JoinedRows {
  /** [B, T] to [M, T']: the rows of a trajectory end to end, in the order of its turns, then 0 or false. */
  readonly join: (values_BT: Tensor) => Tensor;
  /** [M, T'] back to [B, T], with 0 at tokens that no trajectory uses. */
  readonly split: (values_MT: Tensor) => Tensor;
  /** The value of each trajectory's last row. */
  readonly last: (values_B: Tensor) => Tensor;
  /** The value of each trajectory, repeated for each of its rows. */
  readonly spread: (values_M: Tensor) => Tensor;
  readonly lastOf: <Item>(items: readonly Item[]) => readonly Item[];
  readonly spreadOf: <Item>(items: readonly Item[]) => readonly Item[];
}

/** Joins rows by `trajectoryOf`, in the order of `turnOf`. Trajectories are in the order in which they first appear. */
export function joinRows(
  batch: Pick<TokenBatch, "trajectoryOf" | "turnOf" | "groupOf" | "lossMask_BT" | "rewards_BT">,
): JoinedRows {
  const trajectories = trajectoryRows(batch);
  if (trajectories.length === batch.trajectoryOf.length) return untouched;
  const { device } = batch.lossMask_BT;
  const [B, T] = [batch.lossMask_BT.size(0), batch.lossMask_BT.size(1)];
  const lengths = usedLengths(batch);
  const M = trajectories.length;
  const lengthOf = (rows: readonly number[]) => rows.reduce((sum, row) => sum + lengths[row]!, 0);
  const numColumns = trajectories.reduce((most, rows) => Math.max(most, lengthOf(rows)), 1);
  // The cell past the last one holds the zero that empty cells are filled from.
  const fromRows = new Int32Array(M * numColumns).fill(B * T);
  const fromJoined = new Int32Array(B * T).fill(M * numColumns);
  const trajectoryAt = new Array<number>(B);
  trajectories.forEach((rows, trajectory) => {
    let at = trajectory * numColumns;
    for (const row of rows) {
      trajectoryAt[row] = trajectory;
      for (let t = 0; t < lengths[row]!; t++, at++) {
        fromRows[at] = row * T + t;
        fromJoined[row * T + t] = at;
      }
    }
  });
  const index = (places: Int32Array) => tensor(places, [places.length], { dtype: "int64", device });
  const [rowCells, joinedCells] = [index(fromRows), index(fromJoined)];
  const lastRows = trajectories.map((rows) => rows.at(-1)!);
  const [lastRow_M, trajectory_B] = [index(Int32Array.from(lastRows)), index(Int32Array.from(trajectoryAt))];
  return {
    join: (values_BT) => pickCells(values_BT, rowCells, [M, numColumns]),
    split: (values_MT) => pickCells(values_MT, joinedCells, [B, T]),
    last: (values_B) => values_B.indexSelect(0, lastRow_M),
    spread: (values_M) => values_M.indexSelect(0, trajectory_B),
    lastOf: (items) => lastRows.map((row) => items[row]!),
    spreadOf: (items) => trajectoryAt.map((trajectory) => items[trajectory]!),
  };
}

const untouched: JoinedRows = {
  join: (values_BT) => values_BT,
  split: (values_MT) => values_MT,
  last: (values_B) => values_B,
  spread: (values_M) => values_M,
  lastOf: (items) => items,
  spreadOf: (items) => items,
};

/**
 * The rows of each trajectory in the order of its turns. They must belong to one group, and no two to the same turn.
 */
function trajectoryRows({
  trajectoryOf,
  turnOf,
  groupOf,
}: Pick<TokenBatch, "trajectoryOf" | "turnOf" | "groupOf">): readonly (readonly number[])[] {
  expectGroups("trajectoryOf", trajectoryOf, groupOf.length);
  expectGroups("turnOf", turnOf, groupOf.length);
  return groupRows(trajectoryOf).map((rows) => {
    const [first] = rows;
    const stray = rows.find((row) => groupOf[row] !== groupOf[first!]);
    if (stray === undefined) return inTurnOrder(rows, turnOf);
    throw new RerollError(
      "INVALID_ARGUMENT",
      `Rows ${first} and ${stray} are both of trajectory ${trajectoryOf[stray]}, but of groups ${groupOf[first!]} and ` +
        `${groupOf[stray]}. A trajectory belongs to one group: number trajectories through the whole batch.`,
      { rows: [first, stray], trajectory: trajectoryOf[stray] },
    );
  });
}

/** Rows of one trajectory by their turns, which must differ. */
export function inTurnOrder(rows: readonly number[], turnOf: readonly number[]): number[] {
  const ordered = rows.toSorted((a, b) => turnOf[a]! - turnOf[b]!);
  const twice = ordered.find((row, i) => i > 0 && turnOf[row] === turnOf[ordered[i - 1]!]);
  if (twice === undefined) return ordered;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `turnOf[${twice}] is ${turnOf[twice]}, which another row of the same trajectory has too. The turns of a trajectory ` +
      "must differ.",
    { row: twice, turn: turnOf[twice] },
  );
}

/** Per row, one past the last cell with a loss token or a reward: joined rows are no longer than a trajectory. */
function usedLengths({ lossMask_BT, rewards_BT }: Pick<TokenBatch, "lossMask_BT" | "rewards_BT">): number[] {
  const [B, T] = [lossMask_BT.size(0), lossMask_BT.size(1)];
  const mask = readBools(lossMask_BT);
  const rewards = readFloats(rewards_BT);
  return Array.from({ length: B }, (_, row) => {
    let end = (row + 1) * T;
    while (end > row * T && mask[end - 1] === 0 && rewards[end - 1] === 0) end--;
    return end - row * T;
  });
}

function pickCells(values: Tensor, cells: Tensor, shape: readonly [number, number]): Tensor {
  const { dtype, device } = values;
  const padded = cat([values.flatten(), zeros([1], { dtype, device })]);
  return padded.indexSelect(0, cells).view(...shape);
}
