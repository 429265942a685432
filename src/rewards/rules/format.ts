/** Whether a reply keeps a form: tags in order, or a pattern over the whole of it. */
import { z } from "zod";
import { CheckPool } from "../checks/check-pool.ts";
import type { RewardDefinition } from "../reward.ts";
import { patternOption } from "./pattern-option.ts";

const options = z
  .strictObject({
    tags: z
      .array(z.string().regex(/^[\w-]+$/))
      .min(1)
      .optional()
      .describe(
        'Blocks <tag>...</tag> that must appear in this order, once each. ["think", "answer"] is the usual form.',
      ),
    textAfter: z
      .boolean()
      .optional()
      .describe("Whether text may follow the last block. Default: only if there is a single block."),
    isOpened: z.boolean().default(false).describe("Whether the prompt ends with the first tag, as some templates do."),
    pattern: patternOption
      .optional()
      .describe(
        "Pattern that the whole reply must match, as a JavaScript regular expression. Used instead of tags. A reply on which it takes longer than a second has no score.",
      ),
    match: z.number().default(1).describe("Score of a reply that has the form."),
    miss: z.number().default(0).describe("Score of a reply that does not."),
  })
  .refine(({ tags, pattern }) => (tags === undefined) !== (pattern === undefined), {
    path: ["tags"],
    message: "Give either tags or pattern",
  });

export const format: RewardDefinition<typeof options> = {
  type: "format",
  options,
  build: ({ tags, textAfter, isOpened, pattern, match, miss }) => {
    const scoreOf = (isKept: boolean) => ({ value: isKept ? match : miss });
    if (tags !== undefined) {
      return {
        name: "format",
        cost: "instant",
        score: ({ reply }) => {
          const text = isOpened ? `<${tags[0]}>${reply}` : reply;
          return scoreOf(hasBlocks(text, tags, textAfter ?? tags.length === 1));
        },
      };
    }
    const checks = new CheckPool();
    const whole = { pattern: `^(?:${pattern})$`, flags: "su" };
    return {
      name: "format",
      cost: "cpu",
      score: async ({ reply: text }, signal) =>
        scoreOf((await checks.lastMatch({ ...whole, text }, signal)) !== undefined),
      close: () => checks.close(),
    };
  },
};

/** Blocks in order, each tag once in the whole text, and nothing but white space before and between them. */
function hasBlocks(text: string, tags: readonly string[], textAfter: boolean): boolean {
  let rest = text;
  for (const tag of tags) {
    const [open, close] = [`<${tag}>`, `</${tag}>`];
    if (text.split(open).length !== 2 || text.split(close).length !== 2) return false;
    rest = rest.trimStart();
    const end = rest.indexOf(close);
    if (!rest.startsWith(open) || end === -1) return false;
    rest = rest.slice(end + close.length);
  }
  return textAfter || rest.trim() === "";
}
