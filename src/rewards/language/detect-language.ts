/**
 * The language of a text, as an ISO 639-1 code: the script decides where it can, then small words and letters.
 *
 * Comes in: any text, in any case. Goes out: a code of `detectableLanguages`, or undefined for a text without letters or
 * in another script. A text in two languages is told as the one with more letters of its script, or more of its words.
 * It knows fewer languages than statistical detectors and takes an unknown one for its nearest neighbour, but needs no
 * model, gives the same answer every time, and does not mind capitals.
 */
import {
  arabicLanguages,
  cyrillicLanguages,
  devanagariLanguages,
  type LanguageSigns,
  latinLanguages,
} from "./language-signs.ts";

/** Where a script has several languages, those; else the one language. */
const scripts: readonly { readonly letter: RegExp; readonly languages: readonly LanguageSigns[] | string }[] = [
  { letter: /\p{Script=Latin}/gu, languages: latinLanguages },
  { letter: /\p{Script=Cyrillic}/gu, languages: cyrillicLanguages },
  { letter: /\p{Script=Arabic}/gu, languages: arabicLanguages },
  { letter: /\p{Script=Devanagari}/gu, languages: devanagariLanguages },
  { letter: /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/gu, languages: "zh" },
  { letter: /\p{Script=Hangul}/gu, languages: "ko" },
  { letter: /\p{Script=Thai}/gu, languages: "th" },
  { letter: /\p{Script=Bengali}/gu, languages: "bn" },
  { letter: /\p{Script=Gujarati}/gu, languages: "gu" },
  { letter: /\p{Script=Gurmukhi}/gu, languages: "pa" },
  { letter: /\p{Script=Tamil}/gu, languages: "ta" },
  { letter: /\p{Script=Telugu}/gu, languages: "te" },
  { letter: /\p{Script=Kannada}/gu, languages: "kn" },
  { letter: /\p{Script=Malayalam}/gu, languages: "ml" },
  { letter: /\p{Script=Hebrew}/gu, languages: "he" },
  { letter: /\p{Script=Greek}/gu, languages: "el" },
];

/** Every code that detectLanguage can give. */
export const detectableLanguages: readonly string[] = [
  "ja",
  ...scripts.flatMap(({ languages }) =>
    typeof languages === "string" ? [languages] : languages.map(({ code }) => code),
  ),
];

export function detectLanguage(text: string): string | undefined {
  const folded = text.toLowerCase().normalize("NFC");
  const counts = scripts.map(({ letter, languages }) => ({ languages, count: folded.match(letter)?.length ?? 0 }));
  const most = counts.reduce((best, next) => (next.count > best.count ? next : best));
  if (most.count === 0) return undefined;
  if (typeof most.languages !== "string") return mostSigns(folded, most.languages);
  return most.languages === "zh" && isJapanese(folded, most.count) ? "ja" : most.languages;
}

/** Japanese mixes Han with kana everywhere; a Chinese text has kana only in names. */
function isJapanese(text: string, numLetters: number): boolean {
  const numKana = text.match(/[\p{Script=Hiragana}\p{Script=Katakana}]/gu)?.length ?? 0;
  return numKana / numLetters > 0.1;
}

/** The language with the largest share of its small words among the words, plus the share of its letters. */
function mostSigns(text: string, languages: readonly LanguageSigns[]): string | undefined {
  const words = shares(text.match(/[\p{L}\p{M}]+/gu) ?? []);
  const letters = shares(text.match(/[\p{L}¿¡·]/gu) ?? []);
  const points = languages.map(({ code, words: known, letters: own }) => {
    const wordShare = [...known].reduce((sum, word) => sum + (words.get(word) ?? 0), 0);
    const letterShare = [...own].reduce((sum, letter) => sum + (letters.get(letter) ?? 0), 0);
    return { code, points: wordShare + letterWeight * letterShare };
  });
  const best = points.reduce((top, next) => (next.points > top.points ? next : top));
  return best.points > 0 ? best.code : undefined;
}

/** How much of the whole each value is. */
function shares(values: readonly string[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const value of values) found.set(value, (found.get(value) ?? 0) + 1 / values.length);
  return found;
}

/** A word has about five letters, so a letter that only one language has counts like a word. */
const letterWeight = 5;
