/** Rewards for the length of a trajectory, in tokens that the model wrote. */
import { z } from "zod";
import type { RewardDefinition } from "../reward.ts";

const tokens = z.number().int().positive();

const curve = z.discriminatedUnion("shape", [
  z.strictObject({
    shape: z.literal("target").describe("1 at the target, linear down to 0 at a distance of `tolerance` tokens."),
    target: tokens.describe("Number of tokens that scores 1."),
    tolerance: tokens.describe("Distance from the target, in tokens, at which the score reaches 0."),
  }),
  z.strictObject({
    shape: z
      .literal("cosine")
      .describe(
        "From `short` at 0 tokens to `long` at maxTokens, along half a cosine; `exceeded` beyond. arXiv:2502.03373.",
      ),
    maxTokens: tokens.describe("Number of tokens at which the score is `long`."),
    short: z.number().default(1).describe("Score at 0 tokens."),
    long: z.number().default(0).describe("Score at maxTokens."),
    exceeded: z.number().default(0).describe("Score beyond maxTokens."),
  }),
  z.strictObject({
    shape: z
      .literal("overlong")
      .describe(
        "0 up to maxTokens - bufferTokens, linear down to -penalty at maxTokens, -penalty beyond. DAPO, eq. 13.",
      ),
    maxTokens: tokens.describe("Number of tokens from which the penalty is full."),
    bufferTokens: z
      .number()
      .int()
      .nonnegative()
      .describe(
        "Number of tokens before maxTokens over which the penalty grows. 0: it starts beyond maxTokens, in full.",
      ),
    penalty: z.number().nonnegative().default(1).describe("Penalty at maxTokens and beyond."),
  }),
]);

/** How a number of tokens becomes a reward. */
type LengthCurve = z.output<typeof curve>;

const options = z
  .strictObject({ curve: curve.describe("Curve that turns the number of tokens into a score.") })
  .refine(({ curve: chosen }) => chosen.shape !== "overlong" || chosen.bufferTokens <= chosen.maxTokens, {
    path: ["curve", "bufferTokens"],
    message: "It must be at most maxTokens, whose last part it is",
  });

export const length: RewardDefinition<typeof options> = {
  type: "length",
  options,
  build: (chosen) => ({
    name: "length",
    cost: "instant",
    score: ({ numReplyTokens }) => ({
      value: lengthReward(numReplyTokens, chosen.curve),
      parts: { tokens: numReplyTokens },
    }),
  }),
};

function lengthReward(numTokens: number, by: LengthCurve): number {
  switch (by.shape) {
    case "target":
      return Math.max(0, 1 - Math.abs(numTokens - by.target) / by.tolerance);
    case "cosine":
      if (numTokens > by.maxTokens) return by.exceeded;
      return by.long + ((by.short - by.long) * (1 + Math.cos((Math.PI * numTokens) / by.maxTokens))) / 2;
    case "overlong": {
      const excess = numTokens - (by.maxTokens - by.bufferTokens);
      if (excess <= 0) return 0;
      return excess >= by.bufferTokens ? -by.penalty : (-by.penalty * excess) / by.bufferTokens;
    }
  }
}
