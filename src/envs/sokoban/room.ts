/**
 * A Sokoban room and what one move does to it.
 *
 * Cells count row by row. The border is wall all around, so that a move never leaves the arrays.
 */

/** A state of the game. Moves make new ones. */
export interface Room {
  readonly width: number;
  readonly height: number;
  readonly isWall: readonly boolean[];
  readonly isTarget: readonly boolean[];
  /** The cells of the boxes, as many as there are targets. */
  readonly boxes: readonly number[];
  readonly player: number;
}

/** The moves in gym-sokoban's order. A move into a box pushes it. */
export const SOKOBAN_ACTIONS = ["Up", "Down", "Left", "Right"] as const;

/** How far a move goes in a room, by action. */
export function offsetOf(width: number, action: number): number {
  return [-width, width, -1, 1][action]!;
}

/** The room after a move; the same object where the way is blocked. */
export function moveInRoom(room: Room, action: number): Room {
  const offset = offsetOf(room.width, action);
  const next = room.player + offset;
  if (room.isWall[next]) return room;
  const pushed = room.boxes.indexOf(next);
  if (pushed === -1) return { ...room, player: next };
  const beyond = next + offset;
  if (room.isWall[beyond] || room.boxes.includes(beyond)) return room;
  return { ...room, player: next, boxes: room.boxes.with(pushed, beyond) };
}

/** How many boxes stand on targets. */
export function numBoxesOnTargets({ boxes, isTarget }: Room): number {
  return boxes.reduce((count, cell) => count + Number(isTarget[cell]), 0);
}

/** Whether every box stands on a target. */
export function isSolved(room: Room): boolean {
  return numBoxesOnTargets(room) === room.boxes.length;
}
