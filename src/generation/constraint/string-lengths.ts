/**
 * Lengths of strings, counted beside the grammar that a reply follows.
 *
 * A grammar counts characters by trying every token at every draw, which takes a tenth of a second with 150,000 of them. So its rules say
 * where a string with a length begins, by a mark that no reply contains: the guide writes it into its matcher behind the opening quote.
 * What the string may go on with is then the mask of a string without a length, less the tokens that are too long or close it too early.
 */
import { spelledBytes } from "../../chat/tokenizer/spelled-bytes.ts";

/** How many characters a string may have. */
interface LengthBounds {
  readonly min: number;
  readonly max: number;
}

/** A place in a string: how many characters are still asked for and allowed, and what of an escape is still to come. */
interface StringPlace {
  readonly minLeft: number;
  readonly maxLeft: number;
  readonly escaped: EscapeState;
}

/** 0 between characters, 5 behind a backslash, else the number of hexadecimal digits to come. */
type EscapeState = 0 | 1 | 2 | 3 | 4 | 5;

/** What a token adds to a string, up to the quote that closes it. */
interface TokenMeasure {
  readonly numCharacters: number;
  readonly isClosing: boolean;
  readonly escaped: EscapeState;
}

interface MeasureTable {
  readonly numCharacters: Uint16Array;
  readonly isClosing: Uint8Array;
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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MAX_MASKS = 256;

/** The strings of one reply. Where strings with different bounds may begin at the same place, the widest does. */
export class BoundedStrings {
  readonly #lengths: TokenLengths;
  readonly #bounds: readonly LengthBounds[];
  readonly #write: (mark: string) => boolean;
  /** Undefined outside of strings that have bounds. */
  #place: StringPlace | undefined;

  /** @param write goes on by a mark; false where the grammar has none here */
  constructor(lengths: TokenLengths, bounds: readonly LengthBounds[], write: (mark: string) => boolean) {
    this.#lengths = lengths;
    this.#bounds = bounds;
    this.#write = write;
  }

  /** Goes on by a token that the matcher has accepted. */
  accept(tokenId: number): void {
    this.#place &&= this.#lengths.after(this.#place, tokenId);
    if (this.#place !== undefined || !this.#lengths.endsWithQuote(tokenId)) return;
    const begun = this.#bounds.find((bounds) => this.#write(lengthMark(bounds)));
    this.#place = begun && { minLeft: begun.min, maxLeft: begun.max, escaped: 0 };
  }

  /** Takes from the mask of the next token what would break the bounds. */
  restrict(mask: Int32Array): void {
    if (this.#place !== undefined) this.#lengths.restrict(mask, this.#place);
  }
}

/** The tokens of a vocabulary as pieces of strings. */
export class TokenLengths {
  readonly #bytes: readonly Uint8Array[];
  readonly #numWords: number;
  readonly #longest: number;
  readonly #tables = new Map<EscapeState, MeasureTable>();
  readonly #masks = new Map<string, Int32Array>();

  /** @param tokens the bytes of each token: see token-spelling.ts */
  constructor(tokens: readonly string[], numScores: number) {
    this.#bytes = tokens.map((token) => Uint8Array.from(spelledBytes(token) ?? []));
    this.#numWords = Math.ceil(numScores / 32);
    this.#longest = this.#bytes.reduce((most, { length }) => Math.max(most, length), 0);
  }

  /** Whether a string may have begun with the last character of this token. */
  endsWithQuote(tokenId: number): boolean {
    return this.#bytes[tokenId]?.at(-1) === QUOTE;
  }

  /** The place behind a token; undefined where it closes the string. */
  after({ minLeft, maxLeft, escaped }: StringPlace, tokenId: number): StringPlace | undefined {
    const measure = measured(this.#bytes[tokenId] ?? [], escaped);
    if (measure.isClosing) return undefined;
    const { numCharacters } = measure;
    return {
      minLeft: Math.max(0, minLeft - numCharacters),
      maxLeft: maxLeft - numCharacters,
      escaped: measure.escaped,
    };
  }

  /** Takes from a mask the tokens that go beyond the bounds. One bit per score; tokens that are no part of a string are left to the grammar. */
  restrict(mask: Int32Array, place: StringPlace): void {
    const minLeft = Math.min(place.minLeft, this.#longest + 1);
    const maxLeft = Math.min(place.maxLeft, this.#longest);
    if (minLeft === 0 && maxLeft === this.#longest) return;
    const key = `${place.escaped} ${minLeft} ${maxLeft}`;
    const fitting = this.#masks.get(key) ?? this.#fitting({ minLeft, maxLeft, escaped: place.escaped });
    this.#masks.delete(key);
    this.#masks.set(key, fitting);
    const [oldest] = this.#masks.keys();
    if (this.#masks.size > MAX_MASKS && oldest !== undefined) this.#masks.delete(oldest);
    for (let word = 0; word < mask.length; word++) mask[word]! &= fitting[word]!;
  }

  #fitting({ minLeft, maxLeft, escaped }: StringPlace): Int32Array {
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
    const measures = this.#bytes.map((bytes) => measured(bytes, escaped));
    const table = {
      numCharacters: Uint16Array.from(measures, (measure) => measure.numCharacters),
      isClosing: Uint8Array.from(measures, (measure) => (measure.isClosing ? 1 : 0)),
    };
    this.#tables.set(escaped, table);
    return table;
  }
}

function measured(bytes: Iterable<number>, from: EscapeState): TokenMeasure {
  let escaped = from;
  let numCharacters = 0;
  for (const byte of bytes) {
    if (escaped === 5) escaped = byte === 0x75 ? 4 : 0;
    else if (escaped > 0) escaped = (escaped - 1) as EscapeState;
    else if (byte === QUOTE) return { numCharacters, isClosing: true, escaped };
    else {
      if (byte === BACKSLASH) escaped = 5;
      // The bytes that follow the first one of a character are of the same character.
      if ((byte & 0xc0) !== 0x80) numCharacters++;
    }
  }
  return { numCharacters, isClosing: false, escaped };
}
