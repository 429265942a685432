/** Multiple choice: whether the letter a reply settles on is the right one. */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";
import { extractChoice } from "./extract-choice.ts";

const options = z.strictObject({
  letters: z
    .string()
    .regex(/^[A-Z]{2,26}$/)
    .default("ABCDEFGHIJ")
    .describe("Letters that a question may offer."),
  right: z.number().default(1).describe("Score of a right answer."),
  wrong: z.number().default(0).describe("Score of a wrong answer."),
  missing: z.number().default(0).describe("Score of a reply that names no letter, or more than one."),
  truthKey,
});

/** The truth is a letter, such as "B" or "(B)". */
export const choice: RewardDefinition<typeof options> = {
  type: "choice",
  options,
  build: ({ letters, right, wrong, missing, truthKey: key }) => ({
    name: "choice",
    cost: "instant",
    answers: {
      read: (reply) => extractChoice(finalAnswer(reply), letters) ?? null,
      isSame: (one, other) => one === other,
    },
    score: ({ prompt, reply }) => {
      const accepted = truthTexts("choice", prompt, key).map((text) => letterOf(text, letters));
      const found = extractChoice(finalAnswer(reply), letters);
      if (found === undefined) return { value: missing, parts: { extracted: 0 }, explanation: "names no letter" };
      const isRight = accepted.includes(found);
      return { value: isRight ? right : wrong, parts: { extracted: 1 }, explanation: `chooses ${found}` };
    },
  }),
};

function letterOf(text: string, letters: string): string {
  const letter = /^\s*\(?([A-Za-z])[).]?\s*$/.exec(text)?.[1]?.toUpperCase();
  if (letter !== undefined && letters.includes(letter)) return letter;
  throw new RerollError(
    "INVALID_TRUTH",
    `Reward "choice" needs one of the letters ${letters} as truth: got ${JSON.stringify(text)}.`,
    { text, letters },
  );
}
