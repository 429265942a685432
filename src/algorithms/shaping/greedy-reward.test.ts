import { expect, test } from "vitest";
import { greedyReward } from "./greedy-reward.ts";

const plain = { rewardNormalization: null, overlong: null, truncatedPenalty: null, rewardClip: null };
const unscaled = { mean: 0, deviation: 1 };
const outcome = { rewards: [1, -3], numTokens: 8, isTruncated: true };

test("without shaping it is the sum of what was earned", () => {
  expect(greedyReward(outcome, unscaled, plain)).toBe(-2);
});

test("the scale of the domain, the penalties on the last reward and the clip of each come in this order", () => {
  const shaping = {
    rewardNormalization: { isCentered: true },
    overlong: { maxTokens: 10, bufferTokens: 4, penalty: 1 },
    truncatedPenalty: 0.25,
    rewardClip: 2,
  };
  // 1 / 2 = 0.5, and -3 / 2 - 1 / 2 (mean) - 0.5 (two of the four tokens before the limit) - 0.25 = -2.75, clipped to -2.
  expect(greedyReward(outcome, { mean: 1, deviation: 2 }, shaping)).toBe(-1.5);
  expect(greedyReward({ ...outcome, isTruncated: false }, unscaled, { ...plain, truncatedPenalty: 0.25 })).toBe(-2);
});
