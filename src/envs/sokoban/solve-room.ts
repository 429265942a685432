/**
 * Finds a solution: A* over pushes.
 *
 * In: a room. Out: the actions of a solution, or null where there is none or the search grows too large. Boxes are never
 * pushed where they are lost: onto squares from which no target can be reached, or into a block of four that cannot move.
 * The estimate is the cheapest way to give each box a target of its own.
 */
import { type FloorPlan, planFloor } from "./floor-plan.ts";
import { isSolved, type Room, SOKOBAN_ACTIONS } from "./room.ts";

/** What to look for, and for how long. */
interface SolveOptions {
  /**
   * What is kept least. `moves` counts every step of the player; `pushes` leaves out the walking, which makes many states
   * alike and the search smaller. Default `moves`.
   */
  readonly cost?: "moves" | "pushes";
  /** States looked at before giving up. Default 100,000. */
  readonly maxStates?: number;
}

/** One push that leads to a state. The arrays of a search, by the state's number. */
interface Search {
  readonly plan: FloorPlan;
  readonly boxes: (readonly number[])[];
  readonly player: number[];
  readonly cost: number[];
  readonly parent: number[];
  readonly action: number[];
  /** States by cost plus estimate, those found last on top. */
  readonly buckets: number[][];
}

/** The fewest actions that solve the room, or those with the fewest pushes. */
export function solveRoom(room: Room, { cost = "moves", maxStates = 100_000 }: SolveOptions = {}): number[] | null {
  if (isSolved(room)) return [];
  const plan = planFloor(room);
  // Boxes behind walls stay where they are, and had better be on their targets.
  const isReachable = (cell: number) => plan.indexOf[cell] !== -1;
  const reachable = room.boxes.filter(isReachable);
  const isHopeless = room.boxes.some((cell) => !isReachable(cell) && !room.isTarget[cell]);
  if (isHopeless || !hasExactKeys(plan)) return null;
  const search: Search = { plan, boxes: [], player: [], cost: [], parent: [], action: [], buckets: [] };
  const closed = new Set<number>();
  const distances = new Int32Array(plan.numCells);
  const start = reachable.map((cell) => plan.indexOf[cell]!).sort((a, b) => a - b);
  addState(search, start, plan.indexOf[room.player]!, 0, -1, -1);

  for (let total = 0; total < search.buckets.length; total++) {
    const bucket = search.buckets[total];
    while (bucket !== undefined && bucket.length > 0) {
      const state = bucket.pop()!;
      const boxes = search.boxes[state]!;
      const nearest = walk(plan, boxes, search.player[state]!, distances);
      const key = keyOf(plan, boxes, cost === "moves" ? search.player[state]! : nearest);
      if (closed.has(key)) continue;
      closed.add(key);
      if (boxes.every((box) => plan.isTarget[box])) return readActions(search, state);
      if (closed.size > maxStates) return null;
      addPushes(search, state, cost, distances);
    }
  }
  return null;
}

function addPushes(search: Search, state: number, cost: "moves" | "pushes", distances: Int32Array): void {
  const { plan } = search;
  const boxes = search.boxes[state]!;
  for (const [i, box] of boxes.entries()) {
    for (let action = 0; action < SOKOBAN_ACTIONS.length; action++) {
      const to = plan.neighbors[4 * box + action]!;
      const from = plan.neighbors[4 * box + opposite(action)]!;
      if (to === -1 || from === -1 || distances[from] === -1 || plan.isLost[to] || boxes.includes(to)) continue;
      const next = boxes.with(i, to).sort((a, b) => a - b);
      if (isFrozen(plan, next, to)) continue;
      const paid = cost === "moves" ? distances[from]! + 1 : 1;
      addState(search, next, box, search.cost[state]! + paid, state, action);
    }
  }
}

function addState(
  search: Search,
  boxes: readonly number[],
  player: number,
  cost: number,
  parent: number,
  action: number,
): void {
  const estimate = assignTargets(search.plan, boxes);
  if (estimate === Number.POSITIVE_INFINITY) return;
  const state = search.boxes.length;
  search.boxes.push(boxes);
  search.player.push(player);
  search.cost.push(cost);
  search.parent.push(parent);
  search.action.push(action);
  const total = cost + estimate;
  while (search.buckets.length <= total) search.buckets.push([]);
  search.buckets[total]!.push(state);
}

/** Fills in the player's steps to every cell, -1 where boxes are in the way, and returns the first cell it can reach. */
function walk(plan: FloorPlan, boxes: readonly number[], player: number, distances: Int32Array): number {
  distances.fill(-1);
  for (const box of boxes) distances[box] = -2;
  distances[player] = 0;
  const queue = [player];
  let first = player;
  for (const cell of queue) {
    if (cell < first) first = cell;
    for (let action = 0; action < 4; action++) {
      const next = plan.neighbors[4 * cell + action]!;
      if (next === -1 || distances[next] !== -1) continue;
      distances[next] = distances[cell]! + 1;
      queue.push(next);
    }
  }
  for (const box of boxes) distances[box] = -1;
  return first;
}

/** The smallest sum of pushes that brings every box to a target of its own; infinite where there is none. */
function assignTargets(plan: FloorPlan, boxes: readonly number[]): number {
  const { pushes, numTargets, numCells } = plan;
  let best = Number.POSITIVE_INFINITY;
  const assign = (i: number, taken: number, sum: number) => {
    if (sum >= best) return;
    if (i === boxes.length) {
      best = sum;
      return;
    }
    for (let target = 0; target < numTargets; target++) {
      const distance = pushes[target * numCells + boxes[i]!]!;
      if (distance !== -1 && (taken & (1 << target)) === 0) assign(i + 1, taken | (1 << target), sum + distance);
    }
  };
  assign(0, 0, 0);
  return best;
}

/** Whether the box just pushed to `cell` stands in a block of four walls and boxes, one of them off its target. */
function isFrozen(plan: FloorPlan, boxes: readonly number[], cell: number): boolean {
  const { neighbors, isTarget } = plan;
  const beside = (from: number, action: number) => (from === -1 ? -1 : neighbors[4 * from + action]!);
  for (const vertical of [0, 1]) {
    for (const horizontal of [2, 3]) {
      const side = beside(cell, horizontal);
      const above = beside(cell, vertical);
      // The corner is a wall only if neither way leads there.
      const corner = Math.max(beside(above, horizontal), beside(side, vertical));
      const isDiagonalKnown = above !== -1 || side !== -1;
      const blocks = [side, above, corner].map((other) => other === -1 || boxes.includes(other));
      if (!isDiagonalKnown || blocks.includes(false)) continue;
      if ([cell, side, above, corner].some((other) => other !== -1 && !isTarget[other])) return true;
    }
  }
  return false;
}

/** Whether states can be told apart by one number each. */
function hasExactKeys({ numCells, numTargets }: FloorPlan): boolean {
  return numTargets < 31 && numCells ** (numTargets + 1) <= Number.MAX_SAFE_INTEGER;
}

function keyOf({ numCells }: FloorPlan, boxes: readonly number[], player: number): number {
  return boxes.reduce((key, box) => key * numCells + box, player);
}

/** Ways walked and pushes made, in the order they happen. */
function readActions({ plan, boxes, player, parent, action }: Search, last: number): number[] {
  const states: number[] = [];
  for (let state = last; parent[state] !== -1; state = parent[state]!) states.unshift(state);
  const actions: number[] = [];
  let before = 0;
  for (const state of states) {
    const pushedFrom = player[state]!;
    const standing = plan.neighbors[4 * pushedFrom + opposite(action[state]!)]!;
    actions.push(...findWay(plan, boxes[before]!, player[before]!, standing), action[state]!);
    before = state;
  }
  return actions;
}

/** The actions of a shortest way of the player. */
function findWay(plan: FloorPlan, boxes: readonly number[], from: number, to: number): number[] {
  const distances = new Int32Array(plan.numCells);
  walk(plan, boxes, to, distances);
  const way: number[] = [];
  for (let cell = from; cell !== to; ) {
    const action = [0, 1, 2, 3].find((one) => {
      const next = plan.neighbors[4 * cell + one]!;
      return next !== -1 && distances[next] === distances[cell]! - 1;
    })!;
    way.push(action);
    cell = plan.neighbors[4 * cell + action]!;
  }
  return way;
}

function opposite(action: number): number {
  return action ^ 1;
}
