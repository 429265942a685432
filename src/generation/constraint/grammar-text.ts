/** Pieces of grammars in the notation of xgrammar: texts, and sets of characters. */
import { RerollError } from "../../errors/reroll-error.ts";

/** A text, character by character. */
export function literal(text: string): string {
  return `"${Array.from(text, (character) => escaped(character.codePointAt(0) ?? 0)).join("")}"`;
}

/** Characters from one code point to another, both included. */
export type CharRange = readonly [first: number, last: number];

/**
 * One of these characters. Undefined where there is none. Written byte by byte: the classes of the notation hold bytes, and would take
 * a character beyond them for several others.
 */
export function charClass(ranges: readonly CharRange[]): string | undefined {
  const parts = charSequences(ranges);
  return parts.length <= 1 ? parts[0] : `(${parts.join(" | ")})`;
}

/** These characters as alternatives: one for those of a byte, and those of several bytes each as a sequence. */
export function charSequences(ranges: readonly CharRange[]): readonly string[] {
  const sequences = ranges.flatMap(([first, last]) => byteSequences(first, last));
  const single = sequences.flatMap((sequence) => (sequence.length === 1 ? sequence : []));
  return [
    ...(single.length > 0 ? [byteClass(single)] : []),
    ...sequences
      .filter(({ length }) => length > 1)
      .map((sequence) => sequence.map((range) => byteClass([range])).join(" ")),
  ];
}

/** UTF-8: the bytes of characters from one to another, each sequence a range for every byte. */
function byteSequences(first: number, last: number): readonly (readonly CharRange[])[] {
  for (const end of [0x7f, 0x7ff, 0xffff]) {
    if (first <= end && last > end) return [...byteSequences(first, end), ...byteSequences(end + 1, last)];
  }
  // Bytes behind the one in which both ends differ must be free: what is before and after that is apart.
  for (let bits = 6; last > 0x7f && bits <= 18; bits += 6) {
    const low = 2 ** bits - 1;
    if (Math.floor(first / (low + 1)) === Math.floor(last / (low + 1))) break;
    if ((first & low) !== 0) return [...byteSequences(first, first | low), ...byteSequences((first | low) + 1, last)];
    if ((last & low) !== low) return [...byteSequences(first, (last & ~low) - 1), ...byteSequences(last & ~low, last)];
  }
  const [from, to] = [first, last].map((point) => Buffer.from(String.fromCodePoint(point)));
  return [Array.from(from ?? [], (byte, index): CharRange => [byte, to?.[index] ?? byte])];
}

/** A single byte is written twice: alone it would be taken for the character of that number. */
function byteClass(ranges: readonly CharRange[]): string {
  return `[${ranges.map(([first, last]) => (first === last ? hex(first) + hex(last) : `${hex(first)}-${hex(last)}`)).join("")}]`;
}

function hex(byte: number): string {
  return `\\x${byte.toString(16).padStart(2, "0")}`;
}

const MAX_CODE_POINT = 0x10ffff;

/** Everything that text can hold: surrogates are halves of characters, and NUL ends texts in too many programs. */
export const allCharacters: readonly CharRange[] = [
  [0x01, 0xd7ff],
  [0xe000, MAX_CODE_POINT],
];

/** What stands in a JSON string as it is: no quote, no backslash, no control character. */
export const plainJsonCharacters: readonly CharRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, MAX_CODE_POINT],
];

/** Characters that are in both sets. */
export function common(one: readonly CharRange[], other: readonly CharRange[]): readonly CharRange[] {
  return one.flatMap(([first, last]) =>
    other.flatMap(([from, to]): CharRange[] => {
      const range: CharRange = [Math.max(first, from), Math.min(last, to)];
      return range[0] <= range[1] ? [range] : [];
    }),
  );
}

/** All other characters. */
export function complement(ranges: readonly CharRange[]): readonly CharRange[] {
  const inverse: CharRange[] = [];
  let next = 0;
  for (const [first, last] of ranges.toSorted(([a], [b]) => a - b)) {
    if (first > next) inverse.push([next, first - 1]);
    next = Math.max(next, last + 1);
  }
  if (next <= MAX_CODE_POINT) inverse.push([next, MAX_CODE_POINT]);
  return inverse;
}

/** How often something may come. */
export function repeated(item: string, min: number, max: number): string {
  if (max === Infinity) return min === 0 ? `(${item})*` : min === 1 ? `(${item})+` : `(${item}){${min},}`;
  if (min === 1 && max === 1) return `(${item})`;
  return min === 0 && max === 0 ? '""' : `(${item}){${min},${max}}`;
}

/** A constraint that cannot be enforced. `param` is the field that the client typed, as far as it is known here. */
export function invalidConstraint(param: string, message: string): RerollError {
  return new RerollError("INVALID_REQUEST", message, { param });
}

/** Letters and digits as they are, everything else by its number: nothing in it can mean something else. */
function escaped(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  return /^[A-Za-z0-9]$/.test(character) ? character : `\\U${codePoint.toString(16).padStart(8, "0")}`;
}
