import { expect, test } from "vitest";
import type { LakeMap } from "./lake-map.ts";
import { slipperyValues, valueOfAction } from "./slippery-values.ts";

/** Gymnasium's 4x4 map: SFFF FHFH FFFH HFFG. */
const gymnasium: LakeMap = {
  size: 4,
  isHole: [...["____", "_O_O", "___O", "O___"].join("")].map((cell) => cell === "O"),
  start: 0,
  goal: 15,
};

test("with time enough, best play on Gymnasium's map wins 14 games of 17", () => {
  expect(slipperyValues(gymnasium, 2000).at(-1)?.[0]).toBeCloseTo(14 / 17, 6);
});

test("beside the goal, one turn wins one time in three, and two turns more often", () => {
  // Cell 14, left of the goal, with wall below: Down goes left, stays, or goes right into the goal.
  const [none, one, two] = slipperyValues(gymnasium, 2);
  expect([none?.[14], none?.[15]]).toEqual([0, 1]);
  expect(one?.[14]).toBeCloseTo(1 / 3);
  // Down, then again where it stayed: 1/3 + 1/3 * 1/3. Right: goal 1/3, stays 1/3, up 1/3; the same.
  expect(two?.[14]).toBeCloseTo(4 / 9);
  expect(valueOfAction(gymnasium, one!, 14, 1)).toBeCloseTo(4 / 9);
});
