import { expect, test } from "vitest";
import { Random } from "../../random/random.ts";
import { generateRoom } from "./generate-room.ts";
import { isSolved, moveInRoom, type Room } from "./room.ts";
import { readRoom, roomSymbols } from "./room-text.ts";
import { solveRoom } from "./solve-room.ts";

const read = (...lines: string[]) => readRoom(lines.join("\n"), roomSymbols.levels, "test");
const solves = (room: Room, actions: readonly number[] | null) => isSolved(actions!.reduce(moveInRoom, room));
const numPushes = (room: Room, actions: readonly number[]) =>
  actions.filter((action) => {
    const before = room;
    room = moveInRoom(room, action);
    return room.boxes !== before.boxes;
  }).length;

/** Moves of a shortest solution by trying everything; null where there is none. */
function bruteForce(room: Room): number | null {
  const keyOf = ({ player, boxes }: Room) => `${player} ${boxes.toSorted((a, b) => a - b)}`;
  const seen = new Set([keyOf(room)]);
  let level = [room];
  for (let depth = 0; level.length > 0; depth++) {
    if (level.some(isSolved)) return depth;
    level = level.flatMap((state) =>
      [0, 1, 2, 3].flatMap((action) => {
        const next = moveInRoom(state, action);
        if (seen.has(keyOf(next))) return [];
        seen.add(keyOf(next));
        return [next];
      }),
    );
  }
  return null;
}

test("a push to the left and one down take four moves: left, up, left, down", () => {
  expect(solveRoom(read("######", "#    #", "# $@ #", "#.   #", "######"))).toEqual([2, 0, 2, 1]);
});

test("a solved room needs nothing", () => {
  expect(solveRoom(read("####", "#@*#", "####"))).toEqual([]);
});

test.each([
  ["in a corner", ["#####", "#$  #", "# @.#", "#####"]],
  ["along a wall without a target", ["######", "#  $ #", "#  @ #", "#.   #", "######"]],
  ["out of reach", ["#######", "#@#$ .#", "#######"]],
  ["in a block of four", ["#######", "# $$  #", "#@$$..#", "#  .. #", "#######"]],
])("a box %s has no solution", (_, lines) => {
  expect(solveRoom(read(...lines))).toBeNull();
});

test("a box behind walls that is on its target is left alone", () => {
  expect(solveRoom(read("########", "#@$.##*#", "########"))).toEqual([3]);
});

test.each([
  [6, 1, 100],
  [7, 2, 60],
])("solutions of %i x %i rooms are as short as trying everything finds", (size, numBoxes, numRooms) => {
  for (let seed = 0; seed < numRooms; seed++) {
    const room = generateRoom({ size, numBoxes }, new Random(seed));
    const solution = solveRoom(room);
    expect(solves(room, solution)).toBe(true);
    expect(solution).toHaveLength(bruteForce(room)!);
  }
});

test("from random states, a solution is found exactly where trying everything finds one", () => {
  const random = new Random(5);
  let numLost = 0;
  for (let seed = 0; seed < 60; seed++) {
    let room = generateRoom({ size: 7, numBoxes: 2 }, random);
    for (let move = 0; move < 40; move++) room = moveInRoom(room, random.integer(4));
    const shortest = bruteForce(room);
    expect(solveRoom(room)?.length ?? null).toBe(shortest);
    numLost += Number(shortest === null);
  }
  expect(numLost).toBeGreaterThan(10);
});

test("counting pushes alone gives solutions with no more pushes", () => {
  for (let seed = 0; seed < 40; seed++) {
    const room = generateRoom({ size: 8, numBoxes: 2 }, new Random(seed));
    const [byMoves, byPushes] = [solveRoom(room)!, solveRoom(room, { cost: "pushes" })!];
    expect(solves(room, byPushes)).toBe(true);
    expect(numPushes(room, byPushes)).toBeLessThanOrEqual(numPushes(room, byMoves));
    expect(byPushes.length).toBeGreaterThanOrEqual(byMoves.length);
  }
});

test("a search that grows too large gives up", () => {
  const room = read("########", "#  .   #", "# $  $ #", "#  @   #", "#.    ##", "########");
  expect(solveRoom(room, { maxStates: 3 })).toBeNull();
  expect(solves(room, solveRoom(room))).toBe(true);
});
