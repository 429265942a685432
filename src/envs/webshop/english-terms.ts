/**
 * The terms of an English text as a search engine indexes them, by the rules of Lucene's English analysis: words, without
 * the possessive 's, in lower case, without stop words, stemmed.
 *
 * Word borders follow Unicode's rules (UAX 29) for scripts with spaces: a dot, an apostrophe or a colon between letters and
 * a dot, a comma or a semicolon between digits do not split a word.
 */
import { porterStem } from "./porter-stem.ts";

const STOP_WORDS = new Set(
  (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this " +
    "to was will with"
  ).split(" "),
);

const IDEOGRAPH = "\\p{Script=Han}\\p{Script=Hiragana}";
const LETTER = `(?:(?![${IDEOGRAPH}])[\\p{L}\\p{M}])`;
const WORD = new RegExp(
  `[${IDEOGRAPH}]|(?:${LETTER}|[\\p{Nd}_])(?:${LETTER}|[\\p{Nd}_\\p{Cf}]|(?<=[\\p{L}\\p{M}])[.:'‘’·‧](?=[\\p{L}])|(?<=\\p{Nd})[.,;'‘’](?=\\p{Nd}))*`,
  "gu",
);

const stems = new Map<string, string>();
const MAX_STEMS = 100_000;

/** In the order of the text, with repetitions. */
export function englishTerms(text: string): string[] {
  const terms: string[] = [];
  for (const [word] of text.matchAll(WORD)) {
    if (/^_+$/.test(word)) continue;
    const plain = word.replace(/['’＇][sS]$/, "").toLowerCase();
    if (!STOP_WORDS.has(plain)) terms.push(stemOf(plain));
  }
  return terms;
}

/** Product texts repeat their words, so each is stemmed once. */
function stemOf(word: string): string {
  const known = stems.get(word);
  if (known !== undefined) return known;
  const stem = porterStem(word);
  if (stems.size < MAX_STEMS) stems.set(word, stem);
  return stem;
}
