/** Whether a pattern is found in a reply, or what it finds is the truth. */
import { z } from "zod";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";
import { patternOption } from "./pattern-option.ts";

const options = z.strictObject({
  pattern: patternOption.describe("A slow pattern stops the run: it is matched on the main thread."),
  flags: z
    .string()
    .regex(/^[ims]*$/)
    .default("")
    .describe("Any of i, m and s; u is always set."),
  compareWithTruth: z
    .boolean()
    .default(false)
    .describe("Compares the last match (its first group, where it has one) with the truth, ends trimmed."),
  ignoreThinking: z.boolean().default(true),
  match: z.number().default(1),
  miss: z.number().default(0),
  truthKey,
});

export const regex: RewardDefinition<typeof options> = {
  type: "regex",
  options,
  build: ({ pattern, flags, compareWithTruth, ignoreThinking, match, miss, truthKey: key }) => {
    const compiled = new RegExp(pattern, `${flags}ug`);
    return {
      name: "regex",
      cost: "instant",
      score: ({ prompt, reply }) => {
        const accepted = compareWithTruth ? truthTexts("regex", prompt, key).map((text) => text.trim()) : [];
        const last = [...(ignoreThinking ? finalAnswer(reply) : reply).matchAll(compiled)].at(-1);
        if (last === undefined)
          return { value: miss, parts: { extracted: 0 }, explanation: "the pattern is not found" };
        const found = (last[1] ?? last[0]).trim();
        const isRight = !compareWithTruth || accepted.includes(found);
        return {
          value: isRight ? match : miss,
          parts: { extracted: 1 },
          explanation: `found ${JSON.stringify(found)}`,
        };
      },
    };
  },
};
