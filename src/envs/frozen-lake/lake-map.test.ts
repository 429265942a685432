import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../../random/random.ts";
import { distancesToGoal, drawLake, type LakeMap, neighbor } from "./lake-map.ts";

/** Gymnasium's 4x4 map: SFFF FHFH FFFH HFFG. */
const gymnasium: LakeMap = {
  size: 4,
  isHole: [...("____" + "_O_O" + "___O" + "O___")].map((cell) => cell === "O"),
  start: 0,
  goal: 15,
};

test("distances on Gymnasium's map are those counted by hand", () => {
  const rows = [6, 5, 4, 5, 5, -1, 3, -1, 4, 3, 2, -1, -1, 2, 1, 0];
  expect([...distancesToGoal(gymnasium)]).toEqual(rows);
});

test("a lake ends at its shores", () => {
  const at = (cell: number) => [0, 1, 2, 3].map((action) => neighbor(3, cell, action));
  expect(at(0)).toEqual([0, 3, 1, 0]);
  expect(at(4)).toEqual([3, 7, 5, 1]);
  expect(at(8)).toEqual([7, 8, 8, 5]);
  expect(at(5)).toEqual([4, 8, 5, 2]);
});

test("every lake that is drawn can be solved, and start and goal are two cells of ice", () => {
  const options = fc.record({
    size: fc.integer({ min: 2, max: 8 }),
    holeRate: fc.double({ min: 0, max: 0.5, noNaN: true }),
    placement: fc.constantFrom("random" as const, "corners" as const),
    maxTurns: fc.integer({ min: 14, max: 64 }),
  });
  fc.assert(
    fc.property(options, fc.integer(), (options, seed) => {
      const map = drawLake(options, new Random(seed));
      expect(map.start).not.toBe(map.goal);
      expect(map.isHole[map.start] || map.isHole[map.goal]).toBe(false);
      expect(distancesToGoal(map)[map.start]).toBeGreaterThan(0);
      expect(distancesToGoal(map)[map.start]).toBeLessThanOrEqual(options.maxTurns);
      if (options.placement === "corners") expect([map.start, map.goal]).toEqual([0, options.size ** 2 - 1]);
    }),
  );
});

test("without holes every pair of start and goal is as likely as any other", () => {
  const random = new Random(1);
  const counts = new Array<number>(16).fill(0);
  for (let i = 0; i < 12_000; i++) {
    const { start, goal } = drawLake({ size: 2, holeRate: 0, placement: "random", maxTurns: 2 }, random);
    counts[4 * start + goal]!++;
  }
  const pairs = counts.filter((_, i) => Math.floor(i / 4) !== i % 4);
  expect(pairs.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0)).toBeLessThan(31.3); // 11 degrees, p 0.001
});

test("holes are as frequent as their rate where they cannot be in the way", () => {
  const random = new Random(2);
  let numHoles = 0;
  // On 2x2 with opposite corners a map fails only when both other cells are holes: (2 r - 2 r^2) / (1 - r^2) holes a map.
  for (let i = 0; i < 10_000; i++) {
    numHoles += drawLake({ size: 2, holeRate: 0.2, placement: "corners", maxTurns: 2 }, random).isHole.filter(
      Boolean,
    ).length;
  }
  expect(numHoles / 10_000).toBeCloseTo(0.32 / 0.96, 1);
});

test("a lake without a solution is refused with what to do", () => {
  expect(() => drawLake({ size: 2, holeRate: 1, placement: "corners", maxTurns: 2 }, new Random(0))).toThrow(
    /Lower holeRate/,
  );
});

test("no layout of holes and goal is in both parts", () => {
  const options = { size: 4, holeRate: 0.2, placement: "random", maxTurns: 8 } as const;
  const layouts = (part: "train" | "validation") =>
    Array.from({ length: 600 }, (_, seed) => {
      const { isHole, goal } = drawLake({ ...options, part }, new Random(seed));
      return `${isHole.map(Number).join("")} ${goal}`;
    });
  const trained = new Set(layouts("train"));
  expect(trained.size).toBeGreaterThan(200);
  expect(layouts("validation").filter((layout) => trained.has(layout))).toEqual([]);
});
