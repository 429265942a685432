/**
 * Reads the JSON of a safetensors header: text in, raw entries out, in the order they stand.
 *
 * `JSON.parse` is not used for the whole because it hides duplicate keys and builds anything a hostile header asks for
 * (100 MB of "[" become gigabytes). This reader knows the only shape the format allows, stops at the first character
 * that breaks it, and holds no more than the entries it returns.
 */

/** One tensor as its header spells it: types and offsets are not checked yet. */
export interface RawSafetensorsEntry {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly dataOffsets: readonly number[];
}

/** The header as parsed, before anything in it is checked. */
interface RawSafetensorsHeader {
  readonly entries: readonly RawSafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Parses the header text. `fail` makes the error from a description of what is wrong. */
export function parseSafetensorsJson(text: string, fail: (what: string) => Error): RawSafetensorsHeader {
  return new HeaderReader(text, fail).readHeader();
}

class HeaderReader {
  readonly #text: string;
  readonly #fail: (what: string) => Error;
  #position = 0;

  constructor(text: string, fail: (what: string) => Error) {
    this.#text = text;
    this.#fail = fail;
  }

  readHeader(): RawSafetensorsHeader {
    const entries: RawSafetensorsEntry[] = [];
    let metadata: Readonly<Record<string, string>> = {};
    this.#readObject("the header", (name) => {
      if (name === "__metadata__") metadata = this.#readMetadata();
      else entries.push(this.#readEntry(name));
    });
    this.#skipSpace();
    if (this.#position < this.#text.length) throw this.#unexpected("the end of the header");
    return { entries, metadata };
  }

  #readMetadata(): Readonly<Record<string, string>> {
    const pairs: [string, string][] = [];
    this.#readObject("__metadata__", (key) => pairs.push([key, this.#readString()]));
    return Object.fromEntries(pairs);
  }

  #readEntry(name: string): RawSafetensorsEntry {
    let dtype: string | undefined;
    let shape: readonly number[] | undefined;
    let dataOffsets: readonly number[] | undefined;
    this.#readObject("the tensor entry", (key) => {
      if (key === "dtype") dtype = this.#readString();
      else if (key === "shape") shape = this.#readIntegers();
      else if (key === "data_offsets") dataOffsets = this.#readIntegers();
      else throw this.#unexpected('"dtype", "shape" or "data_offsets" as the key before');
    });
    if (dtype === undefined || shape === undefined || dataOffsets === undefined) {
      throw this.#unexpected('an entry with "dtype", "shape" and "data_offsets" before');
    }
    return { name, dtype, shape, dataOffsets };
  }

  /** Calls `readValue` for each key, with the position at the value. */
  #readObject(owner: string, readValue: (key: string) => void): void {
    this.#expect("{");
    if (this.#accept("}")) return;
    const seen = new Set<string>();
    do {
      const key = this.#readString();
      if (seen.has(key)) throw this.#fail(`${owner} has the key ${JSON.stringify(key.slice(0, 120))} twice`);
      seen.add(key);
      this.#expect(":");
      readValue(key);
    } while (this.#accept(","));
    this.#expect("}");
  }

  #readIntegers(): readonly number[] {
    this.#expect("[");
    const values: number[] = [];
    if (this.#accept("]")) return values;
    do values.push(this.#readInteger());
    while (this.#accept(","));
    this.#expect("]");
    return values;
  }

  #readInteger(): number {
    this.#skipSpace();
    const start = this.#position;
    let value = 0;
    for (;;) {
      const digit = this.#text.charCodeAt(this.#position) - zero;
      // NaN at the end of the text, so the comparison is written to be false for it.
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
      this.#position += 1;
    }
    const hasLeadingZero = this.#text[start] === "0" && this.#position > start + 1;
    if (this.#position === start || hasLeadingZero) throw this.#unexpected("a non-negative integer");
    if (!Number.isSafeInteger(value)) throw this.#unexpected("an integer of at most 2^53 - 1 before");
    return value;
  }

  #readString(): string {
    this.#expect('"');
    const start = this.#position;
    const end = this.#text.indexOf('"', start);
    const plain = this.#text.slice(start, end === -1 ? undefined : end);
    if (end === -1 || unusualCharacter.test(plain)) return this.#readUnusualString(start);
    this.#position = end + 1;
    return plain;
  }

  /** A string with an escape, or one that breaks the syntax. */
  #readUnusualString(start: number): string {
    for (;;) {
      const code = this.#text.charCodeAt(this.#position);
      if (code === quote) break;
      if (code < firstPrintable || Number.isNaN(code)) throw this.#unexpected("the end of a string");
      this.#position += code === backslash ? this.#escapeLength() : 1;
    }
    const value = String(JSON.parse(`"${this.#text.slice(start, this.#position)}"`));
    this.#position += 1;
    if (/\p{Surrogate}/u.test(value)) throw this.#unexpected("a string of whole characters before");
    return value;
  }

  #escapeLength(): number {
    escapePattern.lastIndex = this.#position;
    const matched = escapePattern.exec(this.#text)?.[0];
    if (matched === undefined) throw this.#unexpected("a JSON escape");
    return matched.length;
  }

  #accept(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#position] !== character) return false;
    this.#position += 1;
    return true;
  }

  #expect(character: string): void {
    if (!this.#accept(character)) throw this.#unexpected(`'${character}'`);
  }

  #skipSpace(): void {
    let code = this.#text.charCodeAt(this.#position);
    while (code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d) {
      this.#position += 1;
      code = this.#text.charCodeAt(this.#position);
    }
  }

  #unexpected(expected: string): Error {
    const found = this.#text.slice(this.#position, this.#position + 20);
    const got = found === "" ? "the end of the header" : JSON.stringify(found);
    return this.#fail(`the header has ${got} at character ${this.#position} where the format needs ${expected}`);
  }
}

const quote = 0x22;
const backslash = 0x5c;
const zero = 0x30;
const firstPrintable = 0x20;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them in strings, so they are looked for.
const unusualCharacter = /[\\\u0000-\u001f]/;
const escapePattern = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
