/**
 * Tokens in, tokens out: whether a new prompt continues tokens that are already there.
 *
 * In: the tokens of earlier calls (prompt and reply together) and a new prompt. Out: what it extends, or where it
 * breaks. A prompt that breaks them starts a new row; the old tokens are never decoded and encoded again to make it
 * fit.
 */

type PrefixCheck =
  | { readonly kind: "extends" /** Tokens that come on top of those already there. */; readonly numNew: number }
  | { readonly kind: "breaks" /** The first position that differs. */; readonly at: number };

/** Compares a prompt with the tokens it should start with. A prompt that adds nothing extends them by 0 tokens. */
export function checkPrefix(previousIds: ArrayLike<number>, promptIds: ArrayLike<number>): PrefixCheck {
  const at = commonLength(previousIds, promptIds);
  if (at === previousIds.length) return { kind: "extends", numNew: promptIds.length - at };
  return { kind: "breaks", at };
}

type PrefixMatch =
  | { readonly kind: "extends"; readonly index: number; readonly numNew: number }
  | {
      readonly kind: "breaks" /** The index of the sequence that agrees longest; -1 if there is none. */;
      readonly index: number;
      readonly at: number;
    };

/** Finds the longest of several token sequences that a prompt extends, or else the one it follows longest. */
export function findPrefix(candidates: readonly ArrayLike<number>[], promptIds: ArrayLike<number>): PrefixMatch {
  let best: PrefixMatch = { kind: "breaks", index: -1, at: 0 };
  for (const [index, previousIds] of candidates.entries()) {
    const check = checkPrefix(previousIds, promptIds);
    if (isBetter(check, best)) best = { ...check, index };
  }
  return best;
}

function isBetter(check: PrefixCheck, best: PrefixMatch): boolean {
  if (check.kind === "extends") return best.kind === "breaks" || check.numNew < best.numNew;
  return best.kind === "breaks" && (check.at > best.at || best.index === -1);
}

function commonLength(left: ArrayLike<number>, right: ArrayLike<number>): number {
  const length = Math.min(left.length, right.length);
  let index = 0;
  while (index < length && left[index] === right[index]) index++;
  return index;
}
