/**
 * How alike two short texts are, from 0 to 100, by their sets of words: the token-set ratio of the fuzzy-matching
 * libraries thefuzz and RapidFuzz.
 *
 * Words are runs of ASCII letters, digits and `_`, in lower case; other characters separate, those outside ASCII vanish. With s
 * the shared words and a, b the others of each side, all sorted and joined: the largest ratio among (s, s a), (s, s b) and
 * (s a, s b). The ratio of two strings is 2 L / (sum of lengths), L the length of their longest common subsequence.
 */

/** A whole number from 0 to 100. Symmetric; the order of words does not matter. */
export function tokenSetRatio(left: string, right: string): number {
  if (left === right) return 100;
  const leftWords = wordsOf(left);
  const rightWords = wordsOf(right);
  if (leftWords.size === 0 || rightWords.size === 0) return 0;
  const shared = sortedText([...leftWords].filter((word) => rightWords.has(word)));
  const onlyLeft = sortedText([...leftWords].filter((word) => !rightWords.has(word)));
  const onlyRight = sortedText([...rightWords].filter((word) => !leftWords.has(word)));
  const fullLeft = `${shared} ${onlyLeft}`.trim();
  const fullRight = `${shared} ${onlyRight}`.trim();
  return Math.max(ratio(shared, fullLeft), ratio(shared, fullRight), ratio(fullLeft, fullRight));
}

function wordsOf(text: string): Set<string> {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: The range is all of ASCII.
  const ascii = text.replace(/[^\x00-\x7f]/g, "").toLowerCase();
  return new Set(ascii.split(/[^a-z0-9_]+/).filter((word) => word !== ""));
}

function sortedText(words: readonly string[]): string {
  return [...words].sort().join(" ");
}

function ratio(left: string, right: string): number {
  if (left === "" || right === "") return 0;
  return Math.round((200 * commonLength(left, right)) / (left.length + right.length));
}

/** The length of the longest common subsequence. */
function commonLength(left: string, right: string): number {
  let previous = new Uint32Array(right.length + 1);
  let current = new Uint32Array(right.length + 1);
  for (const letter of left) {
    for (let j = 0; j < right.length; j++) {
      current[j + 1] = letter === right[j] ? previous[j]! + 1 : Math.max(previous[j + 1]!, current[j]!);
    }
    [previous, current] = [current, previous];
  }
  return previous[right.length]!;
}
