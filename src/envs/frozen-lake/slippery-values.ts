/**
 * The best play on slippery ice, by backward induction: with `k` turns left, the value of a cell is the largest over actions of
 * the mean over the three ways the player can slip of the values with `k - 1` turns left.
 */
import { LAKE_ACTIONS, type LakeMap, neighbor } from "./lake-map.ts";

/** Where an action can lead: its own direction and the two beside it, each as likely as the others. */
export const SLIPS = [3, 0, 1] as const;

/** The chance to reach the goal from each cell under best play, for 0, 1, ..., `numTurns` turns left. */
export function slipperyValues(map: LakeMap, numTurns: number): Float64Array[] {
  const values = [Float64Array.from(map.isHole, (_, cell) => Number(cell === map.goal))];
  for (let turn = 0; turn < numTurns; turn++) {
    const later = values[turn]!;
    const bestValue = (cell: number) =>
      Math.max(...LAKE_ACTIONS.map((_, action) => valueOfAction(map, later, cell, action)));
    values.push(later.map((value, cell) => (map.isHole[cell] || cell === map.goal ? value : bestValue(cell))));
  }
  return values;
}

/** The mean over slips of what comes after. */
export function valueOfAction({ size }: LakeMap, later: Float64Array, cell: number, action: number): number {
  let sum = 0;
  for (const slip of SLIPS) sum += later[neighbor(size, cell, (action + slip) % 4)]!;
  return sum / SLIPS.length;
}
