/** Decoding of WordPiece vocabularies (BERT), where a prefix such as `##` marks a piece that continues a word. */

/** Joins a continuation to what stands before it and puts a space before any other token. */
export function joinWordPiece(token: string, index: number, prefix: string): string {
  if (index === 0) return token;
  return token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
}

/** Removes the spaces that WordPiece leaves before punctuation and English contractions. */
export function cleanUpSpaces(text: string): string {
  return CLEAN_UPS.reduce((cleaned, [from, to]) => cleaned.replaceAll(from, to), text);
}

/** The clean-up replacements, in the order of the Rust `tokenizers` library. */
const CLEAN_UPS = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
] as const;
