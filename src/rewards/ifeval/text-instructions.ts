/** Instructions about the reply as a whole: its language, its case, how it starts and ends, what it repeats. */
import { z } from "zod";
import { detectableLanguages, detectLanguage } from "../language/detect-language.ts";
import { defineInstruction, type Instruction } from "./define-instruction.ts";
import { holds, relation } from "./relation.ts";
import { countCapitalWords, isLowerCase, isUpperCase } from "./words.ts";

const none = z.object({});

export const textInstructions = {
  // A reply without any letter counts as followed, as in IFEval.
  "language:response_language": defineInstruction(
    z.object({ language: z.enum(detectableLanguages) }),
    (reply, { language }) => !/\p{L}/u.test(reply) || detectLanguage(reply) === language,
  ),
  "change_case:english_capital": defineInstruction(none, (reply) => isUpperCase(reply) && mayBeEnglish(reply)),
  "change_case:english_lowercase": defineInstruction(none, (reply) => isLowerCase(reply) && mayBeEnglish(reply)),
  "change_case:capital_word_frequency": defineInstruction(
    z.object({ capital_frequency: z.number().int().nonnegative(), capital_relation: relation }),
    (reply, { capital_frequency, capital_relation }) =>
      holds(countCapitalWords(reply), capital_relation, capital_frequency),
  ),
  "combination:two_responses": defineInstruction(none, hasTwoResponses),
  "combination:repeat_prompt": defineInstruction(
    z.object({ prompt_to_repeat: z.string().min(1) }),
    (reply, { prompt_to_repeat }) => reply.trim().toLowerCase().startsWith(prompt_to_repeat.trim().toLowerCase()),
  ),
  "startend:end_checker": defineInstruction(z.object({ end_phrase: z.string().min(1) }), (reply, { end_phrase }) =>
    withoutEndQuotes(reply.trim()).toLowerCase().endsWith(end_phrase.trim().toLowerCase()),
  ),
  "startend:quotation": defineInstruction(none, (reply) => /^"[\s\S]*"$/.test(reply.trim())),
  "punctuation:no_comma": defineInstruction(none, (reply) => !reply.includes(",")),
} as const satisfies Record<string, Instruction>;

function withoutEndQuotes(text: string): string {
  let end = text.length;
  while (text[end - 1] === '"') end--;
  return text.slice(0, end);
}

/** English, or too short to tell and in Latin letters. */
function mayBeEnglish(reply: string): boolean {
  const language = detectLanguage(reply);
  return language === "en" || (language === undefined && /\p{Script=Latin}/u.test(reply));
}

/** Two different texts around one `******`; one more at either end is allowed. */
function hasTwoResponses(reply: string): boolean {
  const responses = reply.split("******").map((response) => response.trim());
  if (responses.slice(1, -1).includes("")) return false;
  const full = responses.filter((response) => response !== "");
  return full.length === 2 && full[0] !== full[1];
}
