/**
 * The Porter stemmer (M. F. Porter, "An algorithm for suffix stripping", 1980), with the two departures of its author's own
 * later programs, which Lucene keeps: `bli` becomes `ble`, and `logi` becomes `log`.
 *
 * In: a word in lower case. Out: its stem. Words of one or two characters stay as they are.
 */

type Rules = readonly (readonly [suffix: string, replacement: string])[];

const STEP_2: Rules = [
  ["ational", "ate"],
  ["tional", "tion"],
  ["enci", "ence"],
  ["anci", "ance"],
  ["izer", "ize"],
  ["bli", "ble"],
  ["alli", "al"],
  ["entli", "ent"],
  ["eli", "e"],
  ["ousli", "ous"],
  ["ization", "ize"],
  ["ation", "ate"],
  ["ator", "ate"],
  ["alism", "al"],
  ["iveness", "ive"],
  ["fulness", "ful"],
  ["ousness", "ous"],
  ["aliti", "al"],
  ["iviti", "ive"],
  ["biliti", "ble"],
  ["logi", "log"],
];

const STEP_3: Rules = [
  ["icate", "ic"],
  ["ative", ""],
  ["alize", "al"],
  ["iciti", "ic"],
  ["ical", "ic"],
  ["ful", ""],
  ["ness", ""],
];

const STEP_4: Rules = [
  "al",
  "ance",
  "ence",
  "er",
  "ic",
  "able",
  "ible",
  "ant",
  "ement",
  "ment",
  "ent",
  "ion",
  "ou",
  "ism",
  "ate",
  "iti",
  "ous",
  "ive",
  "ize",
].map((suffix) => [suffix, ""]);

/** The stem of a word in lower case. */
export function porterStem(word: string): string {
  if (word.length <= 2) return word;
  const singular = withoutPlural(word);
  const present = withoutParticiple(singular);
  const ended = present.endsWith("y") && hasVowel(present.slice(0, -1)) ? `${present.slice(0, -1)}i` : present;
  return withoutFinalLetter(replaced(replaced(replaced(ended, STEP_2, 0), STEP_3, 0), STEP_4, 1));
}

/** Step 1a. */
function withoutPlural(word: string): string {
  if (word.endsWith("sses") || word.endsWith("ies")) return word.slice(0, -2);
  return word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}

/** Step 1b. */
function withoutParticiple(word: string): string {
  if (word.endsWith("eed")) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const suffix = ["ed", "ing"].find((ending) => word.endsWith(ending));
  const stem = suffix === undefined ? word : word.slice(0, -suffix.length);
  if (suffix === undefined || !hasVowel(stem)) return word;
  if (/(?:at|bl|iz)$/.test(stem)) return `${stem}e`;
  if (endsWithDoubleConsonant(stem)) return /[lsz]$/.test(stem) ? stem : stem.slice(0, -1);
  return measure(stem) === 1 && endsShort(stem) ? `${stem}e` : stem;
}

/** Steps 2 to 4: the longest suffix that fits decides, and is replaced when the measure of what is before it is larger. */
function replaced(word: string, rules: Rules, minMeasure: number): string {
  let found: Rules[number] | undefined;
  for (const rule of rules) {
    if (word.endsWith(rule[0]) && (found === undefined || rule[0].length > found[0].length)) found = rule;
  }
  if (found === undefined) return word;
  const [suffix, replacement] = found;
  const stem = word.slice(0, -suffix.length);
  if (suffix === "ion" && !/[st]$/.test(stem)) return word;
  return measure(stem) > minMeasure ? stem + replacement : word;
}

/** Step 5. */
function withoutFinalLetter(word: string): string {
  let result = word;
  if (word.endsWith("e")) {
    const stem = word.slice(0, -1);
    const size = measure(stem);
    if (size > 1 || (size === 1 && !endsShort(stem))) result = stem;
  }
  return result.endsWith("ll") && measure(result) > 1 ? result.slice(0, -1) : result;
}

/** How often a vowel is followed by a consonant: the `m` of the paper. */
function measure(stem: string): number {
  let count = 0;
  for (let i = 1; i < stem.length; i++) if (!isConsonant(stem, i - 1) && isConsonant(stem, i)) count++;
  return count;
}

function hasVowel(stem: string): boolean {
  for (let i = 0; i < stem.length; i++) if (!isConsonant(stem, i)) return true;
  return false;
}

function endsWithDoubleConsonant(stem: string): boolean {
  const last = stem.length - 1;
  return last > 0 && stem[last] === stem[last - 1] && isConsonant(stem, last);
}

/** Consonant, vowel, consonant at the end, the last not w, x or y. */
function endsShort(stem: string): boolean {
  const last = stem.length - 1;
  if (last < 2 || !isConsonant(stem, last) || isConsonant(stem, last - 1) || !isConsonant(stem, last - 2)) return false;
  return !"wxy".includes(stem[last]!);
}

/** All but a, e, i, o, u, and y after a consonant. */
function isConsonant(word: string, index: number): boolean {
  const letter = word[index]!;
  if (letter === "y") return index === 0 || !isConsonant(word, index - 1);
  return !"aeiou".includes(letter);
}
