import { expect, test } from "vitest";
import { Random } from "../../random/random.ts";
import { generateRoom } from "./generate-room.ts";
import { isSolved, moveInRoom, numBoxesOnTargets } from "./room.ts";
import { readRoom, roomSymbols, writeRoom } from "./room-text.ts";
import { solveRoom } from "./solve-room.ts";

test.each([
  [6, 1, 1000],
  [8, 2, 150],
  [10, 2, 100],
  [10, 4, 30],
])("every room of size %i with %i boxes is well formed and can be solved: %i rooms", (size, numBoxes, numRooms) => {
  for (let seed = 0; seed < numRooms; seed++) {
    const room = generateRoom({ size, numBoxes }, new Random(seed));
    expect(readRoom(writeRoom(room, roomSymbols.roll), roomSymbols.roll, "test").boxes).toHaveLength(numBoxes);
    expect(numBoxesOnTargets(room)).toBe(0);
    const solution = solveRoom(room, numBoxes > 2 ? { cost: "pushes" } : {});
    expect(isSolved(solution!.reduce(moveInRoom, room))).toBe(true);
  }
});

test("the same seed draws the same room, another one another", () => {
  const text = (seed: number) => writeRoom(generateRoom({ size: 6, numBoxes: 1 }, new Random(seed)), roomSymbols.roll);
  expect(text(1)).toBe(text(1));
  expect(new Set(Array.from({ length: 100 }, (_, seed) => text(seed))).size).toBeGreaterThan(90);
});

test("more boxes than the floor can hold are refused with what to do", () => {
  expect(() => generateRoom({ size: 5, numBoxes: 6 }, new Random(0))).toThrow(/Raise size or lower numBoxes/);
});
