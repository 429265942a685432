/**
 * Lakes: square maps of ice and holes with a start and a goal.
 *
 * In: a size, a rate of holes and a source of chance. Out: a map on which the goal can be reached. Cells count row by row.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Random } from "../../random/random.ts";
import { isInPart } from "../layout-part.ts";

/** Where the holes are, and the way to go. */
export interface LakeMap {
  readonly size: number;
  readonly isHole: readonly boolean[];
  readonly start: number;
  readonly goal: number;
}

/** The directions in Gymnasium's order. */
export const LAKE_ACTIONS = ["Left", "Down", "Right", "Up"] as const;

/** Row and column that each of them adds. */
const OFFSETS = [
  [0, -1],
  [1, 0],
  [0, 1],
  [-1, 0],
] as const;

/** What kind of lake is drawn. */
interface LakeOptions {
  readonly size: number;
  /** How likely a cell is a hole. Start and goal never are. */
  readonly holeRate: number;
  readonly placement: "random" | "corners";
  /** The goal can be reached in this many moves. */
  readonly maxTurns: number;
  /** Default all maps. */
  readonly part?: "all" | "train" | "validation";
}

/** Above any real need: at rates of up to 0.5 and sizes of up to 8, one map in a few hundred is solvable. */
const MAX_TRIES = 100_000;

/** Draws maps until one is of the part and can be solved in time. */
export function drawLake(options: LakeOptions, random: Random): LakeMap {
  const { size, holeRate, placement, maxTurns, part = "all" } = options;
  const numCells = size * size;
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const start = placement === "corners" ? 0 : random.integer(numCells);
    const goal = placement === "corners" ? numCells - 1 : (start + 1 + random.integer(numCells - 1)) % numCells;
    const isHole = Array.from({ length: numCells }, (_, cell) => {
      const isDrawn = random.uniform() < holeRate;
      return isDrawn && cell !== start && cell !== goal;
    });
    const map = { size, isHole, start, goal };
    if (!isInPart(layoutOf(map), part)) continue;
    const distance = distancesToGoal(map)[start]!;
    if (distance !== -1 && distance <= maxTurns) return map;
  }
  throw new RerollError(
    "NO_SOLVABLE_MAP",
    `None of ${MAX_TRIES} lakes of size ${size} with holeRate ${holeRate} ${part === "all" ? "" : `was for ${part} and `}could be solved in ${maxTurns} moves. Lower holeRate or raise maxTurns.`,
    { size, holeRate, maxTurns },
  );
}

/** What stays the same during a walk, so that no state of a map is in both parts. */
function layoutOf({ isHole, goal }: LakeMap): string {
  return isHole.map((hole, cell) => (hole ? "O" : cell === goal ? "G" : "_")).join("");
}

/** The cell beside `cell` in a direction, 0 to 3; the same cell at the shore. */
export function neighbor(size: number, cell: number, action: number): number {
  const [down, right] = OFFSETS[action]!;
  const row = Math.floor(cell / size) + down;
  const column = (cell % size) + right;
  const isInside = row >= 0 && row < size && column >= 0 && column < size;
  return isInside ? row * size + column : cell;
}

/** Steps from each cell to the goal without falling in, by breadth-first search; -1 for holes and where there is no way. */
export function distancesToGoal({ size, isHole, goal }: LakeMap): Int32Array {
  const distances = new Int32Array(size * size).fill(-1);
  distances[goal] = 0;
  const queue = [goal];
  for (const cell of queue) {
    for (let action = 0; action < LAKE_ACTIONS.length; action++) {
      const next = neighbor(size, cell, action);
      if (isHole[next] || distances[next] !== -1) continue;
      distances[next] = distances[cell]! + 1;
      queue.push(next);
    }
  }
  return distances;
}
