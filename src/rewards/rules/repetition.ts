/** A penalty for saying the same thing again: -maxPenalty (1 - distinct n-grams / all n-grams). arXiv:2502.03373, appendix C. */
import { z } from "zod";
import type { RewardDefinition } from "../reward.ts";

const options = z.strictObject({
  ngram: z
    .number()
    .int()
    .positive()
    .default(4)
    .describe("Number of consecutive words that are compared. With 4, ordinary prose scores about 0."),
  maxPenalty: z.number().nonnegative().default(1).describe("Penalty for a reply that only repeats itself."),
});

export const repetition: RewardDefinition<typeof options> = {
  type: "repetition",
  options,
  build: ({ ngram, maxPenalty }) => ({
    name: "repetition",
    cost: "instant",
    score: ({ reply }) => {
      const share = repeatedShare(reply, ngram);
      return { value: share === 0 ? 0 : -maxPenalty * share, parts: { repeated: share } };
    },
  }),
};

/** The share of n-grams that occurred before. Words are compared without case; signs of a script without spaces are words. */
function repeatedShare(text: string, ngram: number): number {
  const words =
    text
      .toLowerCase()
      .match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{M}\p{N}_]+/gu) ?? [];
  const total = words.length - ngram + 1;
  if (total < 1) return 0;
  const distinct = new Set(Array.from({ length: total }, (_, start) => words.slice(start, start + ngram).join(" ")));
  return 1 - distinct.size / total;
}
