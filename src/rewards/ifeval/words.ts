/**
 * Words as IFEval counts them.
 *
 * A word is a run of letters, digits and underscores; combining marks end one, as in Python's `\w`.
 */

const wordPattern = "[\\p{L}\\p{N}_]+";

export function countWords(text: string): number {
  return text.match(new RegExp(wordPattern, "gu"))?.length ?? 0;
}

/**
 * Words without a small letter and with at least one capital. Hyphens, slashes and inner points join ("U.S.", "AC/DC" and
 * "STATE-OF-THE-ART" are one word each); an apostrophe starts a new one ("DON'T" counts twice).
 */
export function countCapitalWords(text: string): number {
  const words = text.match(/['’]?[\p{L}\p{N}_]+(?:[-/.&][\p{L}\p{N}_]+)*/gu) ?? [];
  return words.filter(isUpperCase).length;
}

/** At least one capital and no small letter, as Python's `isupper`. */
export function isUpperCase(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/\p{Lowercase}/u.test(text);
}

/** At least one small letter and no capital, as Python's `islower`. */
export function isLowerCase(text: string): boolean {
  return /\p{Lowercase}/u.test(text) && !/\p{Uppercase}/u.test(text);
}

/** A pattern that finds a text as it stands. */
export function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
