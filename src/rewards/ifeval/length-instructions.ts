/** Instructions about the number of words, sentences and paragraphs. */
import { z } from "zod";
import { countSentences } from "./count-sentences.ts";
import { defineInstruction, type Instruction } from "./define-instruction.ts";
import { holds, relation } from "./relation.ts";
import { countWords } from "./words.ts";

const count = z.number().int().nonnegative();

export const lengthInstructions = {
  "length_constraints:number_words": defineInstruction(z.object({ num_words: count, relation }), (reply, args) =>
    holds(countWords(reply), args.relation, args.num_words),
  ),
  "length_constraints:number_sentences": defineInstruction(
    z.object({ num_sentences: count, relation }),
    (reply, args) => holds(countSentences(reply), args.relation, args.num_sentences),
  ),
  "length_constraints:number_paragraphs": defineInstruction(
    z.object({ num_paragraphs: count }),
    (reply, { num_paragraphs }) => countDivided(reply) === num_paragraphs,
  ),
  "length_constraints:nth_paragraph_first_word": defineInstruction(
    z.object({ num_paragraphs: count, nth_paragraph: z.number().int().positive(), first_word: z.string().min(1) }),
    (reply, { num_paragraphs, nth_paragraph, first_word }) => {
      const paragraphs = reply.split("\n\n");
      // Empty ones do not count, and yet keep their place when the n-th is looked up: so does IFEval.
      const numFull = paragraphs.filter((paragraph) => paragraph.trim() !== "").length;
      const paragraph = paragraphs[nth_paragraph - 1];
      return (
        numFull === num_paragraphs && nth_paragraph <= numFull && firstWord(paragraph) === first_word.toLowerCase()
      );
    },
  ),
} as const satisfies Record<string, Instruction>;

/** The paragraphs between `***` dividers; NaN when one in the middle is empty. A divider at either end is allowed. */
function countDivided(reply: string): number {
  const paragraphs = reply.split(/\s?\*\*\*\s?/);
  const isEmpty = paragraphs.map((paragraph) => paragraph.trim() === "");
  if (isEmpty.slice(1, -1).includes(true)) return Number.NaN;
  return isEmpty.filter((empty) => !empty).length;
}

/** The first word in small letters, without quotes before it and up to the first punctuation mark. */
function firstWord(paragraph = ""): string {
  const [word = ""] = paragraph.trim().split(/\s+/);
  return word
    .replace(/^'+/, "")
    .replace(/^"+/, "")
    .replace(/[.,?!'"][\s\S]*$/, "")
    .toLowerCase();
}
