import { expect, test } from "vitest";
import { cosineLengthReward, groupLengthReward } from "./length.ts";

test("among right replies the short one wins, and a wrong one is never rewarded", () => {
  // Lengths 10, 20, 30: lambda 0.5, 0, -0.5.
  expect(groupLengthReward([10, 20, 30], [true, true, true])).toEqual([0.5, 0, -0.5]);
  expect(groupLengthReward([10, 20, 30], [false, false, false])).toEqual([0, 0, -0.5]);
});

test("equal lengths give 0", () => {
  expect(groupLengthReward([8, 8], [true, false])).toEqual([0, 0]);
});

test("one flag per length is asked for", () => {
  expect(() => groupLengthReward([1, 2], [true])).toThrow(/lengths has 2 entries but isCorrect has 1/);
});

test.each([
  { length: 0, isCorrect: true, reward: 2 },
  { length: 50, isCorrect: true, reward: 1.5 },
  { length: 100, isCorrect: true, reward: 1 },
  { length: 0, isCorrect: false, reward: -10 },
  { length: 100, isCorrect: false, reward: 0 },
  { length: 101, isCorrect: true, reward: -10 },
])("the cosine reward of $length tokens, right: $isCorrect, is $reward", ({ length, isCorrect, reward }) => {
  expect(cosineLengthReward(length, isCorrect, { maxLength: 100 })).toBeCloseTo(reward, 12);
});
