import { expect, test } from "vitest";
import { addRewards, rewardScale } from "./reward-moments.ts";

const earned = (domain: string, ...rewards: number[]) => rewards.map((reward) => ({ domain, reward }));

test("mean and deviation are those of all rewards of the domain so far, however they came", () => {
  // 1, 2, 3, 6: mean 3, squared distances 4 + 1 + 0 + 9 = 14.
  const once = addRewards({}, [...earned("math", 1, 2, 3, 6), ...earned("code", 5)]);
  const inParts = addRewards(addRewards({}, earned("math", 1, 2)), [...earned("code", 5), ...earned("math", 3, 6)]);
  expect(rewardScale(once, "math").mean).toBeCloseTo(3, 12);
  expect(rewardScale(once, "math").deviation).toBeCloseTo(Math.sqrt(14 / 3), 12);
  expect(inParts).toEqual(once);
});

test("rewards that have not differed, or of a domain nobody has seen, are not scaled", () => {
  expect(rewardScale(addRewards({}, earned("math", 0.1, 0.1, 0.1)), "math")).toEqual({ mean: 0.1, deviation: 1 });
  expect(rewardScale(addRewards({}, earned("math", 4)), "math")).toEqual({ mean: 4, deviation: 1 });
  expect(rewardScale({}, "math")).toEqual({ mean: 0, deviation: 1 });
});
