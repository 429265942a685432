/**
 * Lengths of strings, counted beside the grammar that a reply follows.
 *
 * A grammar counts characters by trying every token at every draw, which takes a tenth of a second with 150,000 of them. So its rules say
 * where a string with a length begins, by a mark that no reply contains: the guide writes it into its matcher behind the opening quote.
 * What the string may go on with is then the mask of a string without a length, less the tokens that are too long or close it too early.
 */
import { spelledBytes } from "../../chat/tokenizer/spelled-bytes.ts";

/** How many characters a string may have. */
export interface LengthBounds {
  readonly min: number;
  readonly max: number;
}

/** A place in a string: how many characters are still asked for and allowed, and what of the present one is still to come. */
export interface StringPlace extends CharacterPlace {
  readonly minLeft: number;
  readonly maxLeft: number;
}

/** What of an escape is still to come, and how many bytes of a character. */
interface CharacterPlace {
  readonly escaped: EscapeState;
  readonly numBytes: number;
}

/** 0 between characters, 5 behind a backslash, else the number of hexadecimal digits to come. */
type EscapeState = 0 | 1 | 2 | 3 | 4 | 5;

/** What a token adds to a string, up to the quote that closes it. */
interface TokenMeasure extends CharacterPlace {
  readonly numCharacters: number;
  /** Where that quote is. */
  readonly closingAt: number | undefined;
}

interface MeasureTable {
  readonly numCharacters: Uint16Array;
  readonly isClosing: Uint8Array;
  /** The most characters that a token has. */
  readonly longest: number;
}

/** The mark behind the opening quote of a string with these bounds. Control characters are in no JSON text. */
export function lengthMark({ min, max }: LengthBounds): string {
  return `\u0001${min}to${max}\u0002`;
}

/** The bounds that the rules of a grammar ask for, the widest first, each once. */
export function lengthBounds(rules: string): readonly LengthBounds[] {
  const found = rules.matchAll(/\\U00000001(\d+)to(\d+|Infinity)\\U00000002/g);
  const bounds = new Map([...found].map(([mark, min, max]) => [mark, { min: Number(min), max: Number(max) }]));
  return [...bounds.values()].sort((one, other) => other.max - one.max || one.min - other.min || 0);
}

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
const MAX_MASKS = 256;

/** Whether a character has ended, and none has begun. */
export function isBetween({ escaped, numBytes }: CharacterPlace): boolean {
  return escaped === 0 && numBytes === 0;
}

/** The tokens of a vocabulary as pieces of strings. */
export class TokenLengths {
  readonly #tokens: readonly string[];
  readonly #numWords: number;
  readonly #bytes: (Uint8Array | undefined)[] = [];
  readonly #tables = new Map<EscapeState, MeasureTable>();
  readonly #fitting = new Map<string, Int32Array>();
  /** By the mask of the grammar, and by what is left of the lengths. */
  readonly #restricted = new WeakMap<Int32Array, Map<string, Int32Array>>();

  /** @param tokens the bytes of each token: see token-spelling.ts */
  constructor(tokens: readonly string[], numScores: number) {
    this.#tokens = tokens;
    this.#numWords = Math.ceil(numScores / 32);
  }

  bytesOf(tokenId: number): Uint8Array {
    this.#bytes[tokenId] ??= Uint8Array.from(spelledBytes(this.#tokens[tokenId] ?? "") ?? []);
    return this.#bytes[tokenId];
  }

  /** The place behind a token; where it closes the string, the index of the byte that does. */
  after(place: StringPlace, tokenId: number): StringPlace | number {
    const { numCharacters, escaped, numBytes, closingAt } = measured(this.bytesOf(tokenId), place);
    if (closingAt !== undefined) return closingAt;
    return {
      minLeft: Math.max(0, place.minLeft - numCharacters),
      maxLeft: place.maxLeft - numCharacters,
      escaped,
      numBytes,
    };
  }

  /**
   * A mask less the tokens that go beyond the bounds. One bit per score; tokens that are no part of a string are left to the grammar. What
   * comes back is kept: for the same mask at the same place it is the same array.
   */
  restricted(mask: Int32Array, place: StringPlace): Int32Array {
    if (place.minLeft === 0 && place.maxLeft === Infinity) return mask;
    const { longest } = this.#table(place.escaped);
    const minLeft = Math.min(place.minLeft, longest + 1);
    const maxLeft = Math.min(place.maxLeft, longest);
    if (minLeft === 0 && maxLeft === longest) return mask;
    const key = `${place.escaped} ${minLeft} ${maxLeft}`;
    const known = this.#restricted.get(mask) ?? new Map<string, Int32Array>();
    this.#restricted.set(mask, known);
    return kept(known, key, () => {
      const fitting = kept(this.#fitting, key, () => this.#fit(minLeft, maxLeft, place.escaped));
      return mask.map((word, index) => word & fitting[index]!);
    });
  }

  #fit(minLeft: number, maxLeft: number, escaped: EscapeState): Int32Array {
    const { numCharacters, isClosing } = this.#table(escaped);
    const fitting = new Int32Array(this.#numWords).fill(-1);
    for (let id = 0; id < numCharacters.length; id++) {
      const count = numCharacters[id]!;
      if (count > maxLeft || (isClosing[id] === 1 && count < minLeft)) fitting[id >> 5]! &= ~(1 << (id & 31));
    }
    return fitting;
  }

  #table(escaped: EscapeState): MeasureTable {
    const known = this.#tables.get(escaped);
    if (known !== undefined) return known;
    const measures = this.#tokens.map((_, id) => measured(this.bytesOf(id), { escaped, numBytes: 0 }));
    const table = {
      numCharacters: Uint16Array.from(measures, (measure) => measure.numCharacters),
      isClosing: Uint8Array.from(measures, (measure) => (measure.closingAt === undefined ? 0 : 1)),
      longest: measures.reduce((most, { numCharacters }) => Math.max(most, numCharacters), 0),
    };
    this.#tables.set(escaped, table);
    return table;
  }
}

/** What is there by this key, or was just made. The least recently used goes first. */
function kept(masks: Map<string, Int32Array>, key: string, make: () => Int32Array): Int32Array {
  const mask = masks.get(key) ?? make();
  masks.delete(key);
  masks.set(key, mask);
  const [oldest] = masks.keys();
  if (masks.size > MAX_MASKS && oldest !== undefined) masks.delete(oldest);
  return mask;
}

function measured(bytes: Uint8Array, from: CharacterPlace): TokenMeasure {
  let { escaped, numBytes } = from;
  let numCharacters = 0;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]!;
    if (escaped === 5) escaped = byte === 0x75 ? 4 : 0;
    else if (escaped > 0) escaped = (escaped - 1) as EscapeState;
    else if (byte === QUOTE) return { numCharacters, closingAt: index, escaped, numBytes };
    // The bytes that follow the first one of a character are of the same character.
    else if ((byte & 0xc0) === 0x80) numBytes = Math.max(0, numBytes - 1);
    else {
      if (byte === BACKSLASH) escaped = 5;
      numBytes = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
      numCharacters++;
    }
  }
  return { numCharacters, closingAt: undefined, escaped, numBytes };
}
