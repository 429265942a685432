/** Whether a pattern is found in a reply, or what it finds is the truth. */
import { z } from "zod";
import { CheckPool } from "../checks/check-pool.ts";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";
import { patternOption } from "./pattern-option.ts";

const options = z.strictObject({
  pattern: patternOption.describe(
    "Pattern to look for, as a JavaScript regular expression. A reply on which it takes longer than a second has no score.",
  ),
  flags: z
    .string()
    .regex(/^[ims]*$/)
    .default("")
    .describe("Flags of the pattern: any of i, m and s. u is always set."),
  compareWithTruth: z
    .boolean()
    .default(false)
    .describe(
      "Compare the last match (or its first group, if it has one) with the truth, ignoring spaces at both ends.",
    ),
  ignoreThinking: z.boolean().default(true).describe("Judge only the text after </think>."),
  match: z.number().default(1).describe("Score of a match."),
  miss: z.number().default(0).describe("Score of a reply without one."),
  truthKey,
});

export const regex: RewardDefinition<typeof options> = {
  type: "regex",
  options,
  build: ({ pattern, flags, compareWithTruth, ignoreThinking, match, miss, truthKey: key }) => {
    const checks = new CheckPool();
    return {
      name: "regex",
      cost: "cpu",
      score: async ({ prompt, reply }, signal) => {
        const accepted = compareWithTruth ? truthTexts("regex", prompt, key).map((text) => text.trim()) : [];
        const text = ignoreThinking ? finalAnswer(reply) : reply;
        const found = (await checks.lastMatch({ pattern, flags: `${flags}u`, text }, signal))?.trim();
        if (found === undefined)
          return { value: miss, parts: { extracted: 0 }, explanation: "the pattern is not found" };
        const isRight = !compareWithTruth || accepted.includes(found);
        return {
          value: isRight ? match : miss,
          parts: { extracted: 1 },
          explanation: `found ${JSON.stringify(found)}`,
        };
      },
      close: () => checks.close(),
    };
  },
};
