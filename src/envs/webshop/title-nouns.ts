/**
 * The words of a product title that name things.
 *
 * WebShop asks a part-of-speech model for the nouns and proper nouns of a title. Titles are lists of capitalized words, in
 * which such a model calls nearly every word a proper noun, so here a noun is every word that is neither a number, nor
 * punctuation, nor a function word. Two equal titles, and two titles without a common word, score the same either way.
 */

const FUNCTION_WORDS = new Set(
  (
    "a about above after all also an and any are around as at be been before between both but by can could do does during each " +
    "either every few for from has have he her here his how i if in into is it its just least less many may more most much my " +
    "near neither no non nor not of off on once one only onto or other our out over per plus she should so some such than that " +
    "the their them then there these they this those through to too two three under until up upon us very via was we were what " +
    "when where which while who will with within without would you your"
  ).split(" "),
);

const WORD = /[\p{L}\p{N}]+(?:[.'’&][\p{L}\p{N}]+)*/gu;

/** In lower case, in order, with repetitions. */
export function titleNouns(title: string): string[] {
  return (title.toLowerCase().match(WORD) ?? [])
    .map((word) => word.replace(/['’]s$/, ""))
    .filter((word) => /\p{L}/u.test(word) && !FUNCTION_WORDS.has(word));
}
