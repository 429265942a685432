/**
 * The number of sentences in a text.
 *
 * A sentence ends at `.`, `?` or `!` (and the quotes or brackets that close after it) before white space or the end. A point
 * does not end one after a known abbreviation or a single letter; dots and numbers end none where a small letter follows.
 * A line break alone ends nothing: a heading belongs to the sentence below it, and "1." before a capital counts as one,
 * both as in NLTK's Punkt, which IFEval uses. Punkt learned its abbreviations from newspapers and breaks after some of
 * them when a frequent first word follows; this one has a fixed list and never does.
 */
export function countSentences(text: string): number {
  const words = text.split(/\s+/).filter((word) => word !== "");
  return words.filter((word, i) => {
    const next = words[i + 1];
    return next === undefined || endsSentence(word, next);
  }).length;
}

const closers = new Set("\"'”’)]}*_,;:");
const openers = new Set("\"'“‘([*_");

function endsSentence(word: string, next: string): boolean {
  const signs = [...word];
  while (closers.has(signs.at(-1) ?? "")) signs.pop();
  const last = signs.pop();
  if (last === "?" || last === "!") return true;
  if (last !== ".") return false;
  const stem = withoutOpeners(signs.join(""));
  if (/^\p{L}$/u.test(stem) || abbreviations.has(stem.toLowerCase())) return false;
  const mayGoOn = stem.endsWith(".") || /^\d+$/.test(stem);
  return !(mayGoOn && /^\p{Lowercase}/u.test(withoutOpeners(next)));
}

function withoutOpeners(word: string): string {
  let start = 0;
  while (openers.has(word[start] ?? "")) start++;
  return word.slice(start);
}

const abbreviations = new Set(
  (
    "mr mrs ms dr prof st jr sr vs etc e.g i.e u.s u.k a.m p.m no vol inc ltd co corp fig gen col sgt capt lt rev hon " +
    "jan feb mar apr jun jul aug sep sept oct nov dec mt ft dept est approx ph.d d.c p.s p.p.s"
  ).split(" "),
);
