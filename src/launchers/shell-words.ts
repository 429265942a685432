/** Words as a shell takes them. */

/** Quoted where a shell would see more in it than a word. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command line. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
