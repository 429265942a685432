/** Whether texts occur in a reply. */
import { z } from "zod";
import { finalAnswer } from "../final-answer.ts";
import type { RewardDefinition } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";

const texts = z.array(z.string().min(1)).min(1).optional();

const options = z.strictObject({
  all: texts.describe(
    "Texts that must all occur. Default, if any and none are not given either: the texts of the truth.",
  ),
  any: texts.describe("Texts of which at least one must occur."),
  none: texts.describe("Texts that must not occur."),
  ignoreCase: z.boolean().default(true).describe("Ignore upper and lower case."),
  ignoreThinking: z.boolean().default(true).describe("Judge only the text after </think>."),
  partial: z.boolean().default(false).describe("Score the share of the conditions that hold, instead of 1 or 0."),
  truthKey,
});

export const contains: RewardDefinition<typeof options> = {
  type: "contains",
  options,
  build: ({ all, any, none, ignoreCase, ignoreThinking, partial, truthKey: key }) => {
    const fold = (text: string) => (ignoreCase ? text.toLowerCase() : text);
    const needsTruth = all === undefined && any === undefined && none === undefined;
    return {
      name: "contains",
      cost: "instant",
      score: ({ prompt, reply }) => {
        const text = fold(ignoreThinking ? finalAnswer(reply) : reply);
        const has = (part: string) => text.includes(fold(part));
        const wanted = needsTruth ? truthTexts("contains", prompt, key) : (all ?? []);
        const conditions = [
          ...wanted.map((part) => ({ part, holds: has(part) })),
          ...(any === undefined ? [] : [{ part: any.join(" | "), holds: any.some(has) }]),
          ...(none ?? []).map((part) => ({ part: `no ${part}`, holds: !has(part) })),
        ];
        const missed = conditions.filter(({ holds }) => !holds);
        const share = 1 - missed.length / conditions.length;
        return {
          value: partial ? share : Number(missed.length === 0),
          explanation:
            missed.length === 0 ? "all texts as asked" : `lacks ${missed.map(({ part }) => part).join(", ")}`,
        };
      },
    };
  },
};
