/** Whether a teacher can measure the tokens of its student: both must mean the same by every id. */
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";

/**
 * Throws where the vocabularies or the special tokens differ. Rows of an embedding beyond the vocabulary are padding, and may be any
 * number.
 *
 * @param key how the run file calls the teacher
 */
export function expectSameVocabulary(key: string, teacher: Tokenizer, student: Tokenizer): void {
  const size = Math.max(teacher.vocabularySize, student.vocabularySize);
  for (let id = 0; id < size; id++) {
    const [theirs, ours] = [teacher.tokenOf(id), student.tokenOf(id)];
    if (theirs !== ours)
      throw mismatch(key, teacher, `token ${id} is ${shown(theirs)} there and ${shown(ours)} in the model`);
    const isSpecial = teacher.specialIds.has(id);
    if (isSpecial !== student.specialIds.has(id)) {
      const [there, here] = isSpecial ? ["a special token", "none"] : ["no special token", "one"];
      throw mismatch(key, teacher, `token ${id}, ${shown(ours)}, is ${there} there and ${here} in the model`);
    }
  }
}

function shown(token: string | undefined): string {
  return token === undefined ? "missing" : JSON.stringify(token);
}

function mismatch(key: string, { name }: Tokenizer, what: string): RerollError {
  return new RerollError(
    "VOCABULARY_MISMATCH",
    `${key} has another vocabulary than the model: ${what}. A teacher measures the very tokens of its student, so both need the same tokenizer. ` +
      "Take a teacher of the same family, or train the student from another model.",
    { key, name },
  );
}
