/**
 * Rooms that can be solved, as gym-sokoban draws them.
 *
 * A random walk carves floor out of the wall. Boxes are then put on targets, and the game is played backwards, depth first,
 * by moving and pulling: each state found is a room with a solution. The one kept has no box on a target and the largest
 * score: changes of the pulled box times the distance of the boxes from their targets.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Random } from "../../random/random.ts";
import { offsetOf, type Room } from "./room.ts";

/** What kind of room is drawn. `size` counts the outer walls. */
interface RoomOptions {
  readonly size: number;
  readonly numBoxes: number;
}

const MAX_TRIES = 1000;
/** States of one backward game. All of a room with one box; with more, enough to get boxes far away in milliseconds. */
const MAX_STATES = 4000;
const CHANGE_OF_DIRECTION = 0.35;
/** What a step of the walk carves out around itself: offsets of row and column. */
const BRUSHES: readonly (readonly (readonly [number, number])[])[] = [
  [
    [0, -1],
    [0, 0],
    [0, 1],
  ],
  [
    [-1, 0],
    [0, 0],
    [1, 0],
  ],
  [
    [0, -1],
    [0, 0],
    [1, 0],
  ],
  [
    [0, -1],
    [0, 0],
    [1, -1],
    [1, 0],
  ],
  [
    [0, 0],
    [0, 1],
    [1, 0],
  ],
];

/** Draws until a room comes out in which every box can be moved off its target. */
export function generateRoom(options: RoomOptions, random: Random): Room {
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const room = placeBoxes(carveRoom(options.size, random), options, random);
    const start = room && playBackwards(room, random);
    if (start) return start;
  }
  const { size, numBoxes } = options;
  throw new RerollError(
    "NO_SOLVABLE_MAP",
    `No room of size ${size} with ${numBoxes} boxes in ${MAX_TRIES} draws. Raise size or lower numBoxes.`,
    { size, numBoxes },
  );
}

/** Walls, with floor where the walk came by. It takes 1.7 steps per row and column. */
function carveRoom(size: number, random: Random): boolean[] {
  const isWall = new Array<boolean>(size * size).fill(true);
  const inside = (value: number) => Math.min(Math.max(value, 1), size - 2);
  let row = 1 + random.integer(size - 2);
  let column = 1 + random.integer(size - 2);
  let direction = random.integer(4);
  for (let step = 0; step < Math.floor(1.7 * 2 * size); step++) {
    if (random.uniform() < CHANGE_OF_DIRECTION) direction = random.integer(4);
    row = inside(row + [-1, 1, 0, 0][direction]!);
    column = inside(column + [0, 0, -1, 1][direction]!);
    for (const [down, right] of random.pick(BRUSHES)) {
      const [y, x] = [row + down, column + right];
      if (y === inside(y) && x === inside(x)) isWall[y * size + x] = false;
    }
  }
  return isWall;
}

/** A solved room: every box on its target. Null where there is too little floor. */
function placeBoxes(isWall: boolean[], { size, numBoxes }: RoomOptions, random: Random): Room | null {
  const floor = isWall.flatMap((wall, cell) => (wall ? [] : [cell]));
  if (floor.length < 2 * numBoxes + 1) return null;
  const [player, ...rest] = random.shuffled(floor);
  const boxes = rest.slice(0, numBoxes);
  const isTarget = isWall.map((_, cell) => boxes.includes(cell));
  return { width: size, height: size, isWall, isTarget, boxes, player: player! };
}

interface BackwardState {
  readonly player: number;
  /** Box `i` came from target `i`. */
  readonly boxes: readonly number[];
  readonly numSwaps: number;
  readonly lastPulled: number;
}

/** The start of a game that ends in the solved room; null where no box can leave its target. */
function playBackwards(solved: Room, random: Random): Room | null {
  const { width, isWall, isTarget, boxes: targets } = solved;
  const offsets = random.shuffled([0, 1, 2, 3]).map((action) => offsetOf(width, action));
  const seen = new Set<number>();
  const stack: BackwardState[] = [];
  const visit = (state: BackwardState) => {
    const key = state.boxes.reduce((key, box) => key * isWall.length + box, state.player);
    if (seen.has(key)) return;
    seen.add(key);
    stack.push(state);
  };
  let best: BackwardState | null = null;
  let bestScore = 0;
  visit({ player: solved.player, boxes: targets, numSwaps: 0, lastPulled: -1 });
  for (let state = stack.pop(); state !== undefined && seen.size < MAX_STATES; state = stack.pop()) {
    const { player, boxes, numSwaps, lastPulled } = state;
    const score = numSwaps * totalDistance(boxes, targets, width);
    if (score > bestScore && boxes.every((box) => !isTarget[box])) {
      best = state;
      bestScore = score;
    }
    for (const offset of offsets) {
      const next = player + offset;
      if (isWall[next] || boxes.includes(next)) continue;
      visit({ ...state, player: next });
      const pulled = boxes.indexOf(player - offset);
      if (pulled === -1) continue;
      const swap = Number(pulled !== lastPulled);
      visit({ player: next, boxes: boxes.with(pulled, player), numSwaps: numSwaps + swap, lastPulled: pulled });
    }
  }
  return best && { ...solved, player: best.player, boxes: best.boxes };
}

function totalDistance(boxes: readonly number[], targets: readonly number[], width: number): number {
  return boxes.reduce((sum, box, i) => {
    const target = targets[i]!;
    const rows = Math.abs(Math.floor(box / width) - Math.floor(target / width));
    return sum + rows + Math.abs((box % width) - (target % width));
  }, 0);
}
