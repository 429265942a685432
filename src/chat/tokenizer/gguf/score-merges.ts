/**
 * The merges of a sentencepiece vocabulary, whose tokens have scores and no list of merges: two neighbors that make a token are joined,
 * the pair with the best-scored token first.
 */

/** Every pair of tokens that joins to a token, best score first; among equals in the order of the ids. */
export function scoreMerges(tokens: readonly string[], scores: ArrayLike<number>): [string, string][] {
  const ids = new Map<string, number>();
  for (const [id, token] of tokens.entries()) if (!ids.has(token)) ids.set(token, id);
  const merges: { readonly left: string; readonly right: string; readonly score: number }[] = [];
  for (const [token, id] of ids) {
    const own: { left: string; right: string; score: number }[] = [];
    for (let cut = 1; cut < token.length; cut++) {
      const [left, right] = [token.slice(0, cut), token.slice(cut)];
      if (ids.has(left) && ids.has(right)) own.push({ left, right, score: scores[id]! });
    }
    own.sort((a, b) => ids.get(a.left)! - ids.get(b.left)! || ids.get(a.right)! - ids.get(b.right)!);
    merges.push(...own);
  }
  return merges.sort((a, b) => b.score - a.score).map(({ left, right }) => [left, right]);
}
