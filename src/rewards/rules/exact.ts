/** Whether an answer is the same text as one of the accepted ones. */
import { z } from "zod";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";

const options = z.strictObject({
  after: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Compare only what follows the last occurrence of these words, such as "the answer is". A reply without them is wrong.',
    ),
  lastLine: z.boolean().default(false).describe("Compare only the last line that is not empty."),
  ignoreCase: z.boolean().default(true).describe("Ignore upper and lower case."),
  ignorePunctuation: z.boolean().default(true).describe("Compare only letters, digits and the spaces between them."),
  right: z.number().default(1).describe("Score of a right answer."),
  wrong: z.number().default(0).describe("Score of a wrong answer."),
  truthKey,
});

/** The truth is a text, a number, or a list of accepted ones. White space at the ends and its length never count. */
export const exact: RewardDefinition<typeof options> = {
  type: "exact",
  options,
  build: ({ after, lastLine, ignoreCase, ignorePunctuation, right, wrong, truthKey: key }) => {
    const normalize = (text: string) => {
      const folded = ignoreCase ? text.toLowerCase() : text;
      const bare = ignorePunctuation ? folded.replace(/[^\p{L}\p{M}\p{N}\s]/gu, " ") : folded;
      return bare.normalize("NFC").replace(/\s+/g, " ").trim();
    };
    return {
      name: "exact",
      cost: "instant",
      answers: {
        read: (reply) => pick(finalAnswer(reply), after, lastLine) ?? null,
        isSame: (one, other) => normalize(one) === normalize(other),
      },
      score: ({ prompt, reply }) => {
        const accepted = truthTexts("exact", prompt, key).map(normalize);
        const answer = pick(finalAnswer(reply), after, lastLine);
        if (answer === undefined)
          return { value: wrong, parts: { extracted: 0 }, explanation: `does not say "${after}"` };
        const isRight = accepted.includes(normalize(answer));
        return {
          value: isRight ? right : wrong,
          parts: { extracted: 1 },
          explanation: `answers ${JSON.stringify(answer)}`,
        };
      },
    };
  },
};

function pick(text: string, after: string | undefined, lastLine: boolean): string | undefined {
  const whole = lastLine ? text.trimEnd().split("\n").at(-1)! : text;
  if (after === undefined) return whole.trim();
  const at = whole.toLowerCase().lastIndexOf(after.toLowerCase());
  return at === -1
    ? undefined
    : whole
        .slice(at + after.length)
        .replace(/^\s*:/, "")
        .trim();
}
