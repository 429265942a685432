/** What a solver needs to know of a room before it starts: floor cells under small numbers, and how far boxes are pushed. */
import { offsetOf, type Room, SOKOBAN_ACTIONS } from "./room.ts";

/** Cells are numbered in the order of the room; walls and floor that nobody can enter have no number. */
export interface FloorPlan {
  readonly numCells: number;
  readonly numTargets: number;
  /** The number of a cell of the room, -1 for others. */
  readonly indexOf: Int32Array;
  /** The cell beside `cell` in each of the four directions at `4 * cell + action`; -1 for a wall. */
  readonly neighbors: Int32Array;
  readonly isTarget: readonly boolean[];
  /** Pushes that bring a lone box from `cell` to a target at `target * numCells + cell`; -1 where none do. */
  readonly pushes: Int32Array;
  /** Whether a box on the cell can reach no target at all. */
  readonly isLost: readonly boolean[];
}

/** Looks at everything that does not change during a game. */
export function planFloor(room: Room): FloorPlan {
  const cells = reachableCells(room);
  const indexOf = new Int32Array(room.isWall.length).fill(-1);
  for (const [index, cell] of cells.entries()) indexOf[cell] = index;
  const neighbors = Int32Array.from({ length: 4 * cells.length }, (_, i) => {
    return indexOf[cells[i >> 2]! + offsetOf(room.width, i & 3)]!;
  });
  const isTarget = cells.map((cell) => room.isTarget[cell]!);
  const targets = isTarget.flatMap((is, index) => (is ? [index] : []));
  const pushes = new Int32Array(targets.length * cells.length).fill(-1);
  for (const [i, target] of targets.entries()) {
    countPushes(target, neighbors, pushes.subarray(i * cells.length, (i + 1) * cells.length));
  }
  const isLost = cells.map((_, index) => targets.every((_, i) => pushes[i * cells.length + index] === -1));
  return { numCells: cells.length, numTargets: targets.length, indexOf, neighbors, isTarget, pushes, isLost };
}

/** What is connected with the player once boxes are out of the way, in the order of the room. */
function reachableCells({ width, isWall, player }: Room): number[] {
  const cells = new Set([player]);
  for (const cell of cells) {
    for (let action = 0; action < SOKOBAN_ACTIONS.length; action++) {
      const next = cell + offsetOf(width, action);
      if (!isWall[next]) cells.add(next);
    }
  }
  return [...cells].sort((a, b) => a - b);
}

/** Breadth first from the target by pulling: the box goes one cell, the player needs another one behind it. */
function countPushes(target: number, neighbors: Int32Array, distances: Int32Array): void {
  distances[target] = 0;
  const queue = [target];
  for (const cell of queue) {
    for (let action = 0; action < SOKOBAN_ACTIONS.length; action++) {
      const box = neighbors[4 * cell + action]!;
      const player = box === -1 ? -1 : neighbors[4 * box + action]!;
      if (player === -1 || distances[box] !== -1) continue;
      distances[box] = distances[cell]! + 1;
      queue.push(box);
    }
  }
}
