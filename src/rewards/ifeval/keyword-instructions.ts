/** Instructions about words and letters that must or must not occur. Keywords are plain text, found inside words too. */
import { z } from "zod";
import { defineInstruction, type Instruction } from "./define-instruction.ts";
import { holds, relation } from "./relation.ts";
import { escapePattern } from "./words.ts";

const count = z.number().int().nonnegative();
const texts = z.array(z.string().min(1)).min(1);

export const keywordInstructions = {
  "keywords:existence": defineInstruction(z.object({ keywords: texts }), (reply, { keywords }) =>
    keywords.every((keyword) => countOccurrences(reply, keyword) > 0),
  ),
  "keywords:frequency": defineInstruction(
    z.object({ keyword: z.string().trim().min(1), frequency: count, relation }),
    (reply, args) => holds(countOccurrences(reply, args.keyword), args.relation, args.frequency),
  ),
  "keywords:forbidden_words": defineInstruction(z.object({ forbidden_words: texts }), (reply, { forbidden_words }) =>
    forbidden_words.every((word) => !isWholeWord(reply, word)),
  ),
  // Letters are counted as they are given, signs such as "!" included; IFEval's code draws a random letter for those.
  "keywords:letter_frequency": defineInstruction(
    z.object({ letter: z.string().trim().length(1), let_frequency: count, let_relation: relation }),
    (reply, { letter, let_frequency, let_relation }) =>
      holds(reply.toLowerCase().split(letter.toLowerCase()).length - 1, let_relation, let_frequency),
  ),
} as const satisfies Record<string, Instruction>;

function countOccurrences(reply: string, keyword: string): number {
  return reply.match(new RegExp(escapePattern(keyword), "giu"))?.length ?? 0;
}

function isWholeWord(reply: string, word: string): boolean {
  const inside = "[\\p{L}\\p{N}_]";
  return new RegExp(`${boundary(inside)}${escapePattern(word)}${boundary(inside)}`, "iu").test(reply);
}

/** `\b` for all alphabets: JavaScript's own knows only ASCII letters. */
function boundary(inside: string): string {
  return `(?:(?<=${inside})(?!${inside})|(?<!${inside})(?=${inside}))`;
}
