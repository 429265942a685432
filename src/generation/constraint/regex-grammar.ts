/**
 * Regular expressions as grammars.
 *
 * In: a pattern as JavaScript writes it, read by code point. Out: an expression of the grammar. What a grammar cannot do (looking around,
 * references to groups, word boundaries) is refused by name.
 */
import {
  allCharacters,
  type CharRange,
  charClass,
  common,
  complement,
  invalidConstraint,
  literal,
  plainJsonCharacters,
  repeated,
} from "./grammar-text.ts";

/** `text`: the whole reply. `json-string`: what is between the quotes; the pattern may match a part of it, as in JSON Schema. */
type RegexPlace = "text" | "json-string";

const MAX_PATTERN = 4096;
const MAX_REPEATS = 10_000;

export function regexGrammar(pattern: string, place: RegexPlace): string {
  if (pattern.length > MAX_PATTERN) throw refuse(pattern, `is longer than ${MAX_PATTERN} characters`);
  try {
    new RegExp(pattern, "u");
  } catch (cause) {
    throw refuse(pattern, `is not a regular expression: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
  return new RegexReader(pattern, place).read();
}

const DIGITS: readonly CharRange[] = [[0x30, 0x39]];
const WORD: readonly CharRange[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const SPACE: readonly CharRange[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const CLASSES: Readonly<Record<string, readonly CharRange[]>> = {
  ...{ d: DIGITS, D: complement(DIGITS), w: WORD, W: complement(WORD), s: SPACE, S: complement(SPACE) },
};
const LINE_ENDS: readonly CharRange[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 };

/** Reads from left to right; the pattern is known to be one that JavaScript takes. */
class RegexReader {
  readonly #pattern: string;
  readonly #characters: readonly string[];
  readonly #place: RegexPlace;
  readonly #allowed: readonly CharRange[];
  #at = 0;

  constructor(pattern: string, place: RegexPlace) {
    this.#pattern = pattern;
    this.#characters = [...pattern];
    this.#place = place;
    this.#allowed = place === "text" ? allCharacters : plainJsonCharacters;
  }

  read(): string {
    const alternatives: string[] = [];
    do alternatives.push(this.#anchored());
    while (this.#take("|"));
    return alternatives.length === 1 ? alternatives[0]! : alternatives.map((one) => `(${one})`).join(" | ");
  }

  /** An alternative of the whole pattern: only here may it say where the text begins and ends. */
  #anchored(): string {
    const fill = this.#place === "json-string" ? [repeated(charClass(this.#allowed)!, 0, Infinity)] : [];
    const before = this.#take("^") ? [] : fill;
    const body = this.#sequence();
    const after = this.#take("$") ? [] : fill;
    if (this.#peek() !== undefined && this.#peek() !== "|") throw this.#refuse("has $ or ) where it cannot be");
    return [...before, body, ...after].join(" ");
  }

  #alternatives(): string {
    const alternatives: string[] = [];
    do alternatives.push(this.#sequence());
    while (this.#take("|"));
    return alternatives.map((one) => `(${one})`).join(" | ");
  }

  #sequence(): string {
    const items: string[] = [];
    for (let next = this.#peek(); next !== undefined && !"|)$".includes(next); next = this.#peek()) {
      const item = this.#atom();
      items.push(this.#quantified(item));
    }
    return items.length === 0 ? '""' : items.join(" ");
  }

  #atom(): string {
    const character = this.#next();
    if (character === "(") return this.#group();
    if (character === "[") return this.#one(this.#set());
    if (character === ".") return this.#one(complement(LINE_ENDS));
    if (character === "^") throw this.#refuse("has ^ behind its beginning");
    return this.#one(character === "\\" ? this.#escape() : point(character));
  }

  #group(): string {
    if (this.#take("?")) {
      const kind = this.#next();
      if (kind === "<" && this.#peek() !== "=" && this.#peek() !== "!") while (this.#next() !== ">");
      else if (kind !== ":") throw this.#refuse("looks ahead or behind, or sets flags");
    }
    const inner = this.#alternatives();
    if (!this.#take(")")) throw this.#refuse("has $ inside of a group");
    return `(${inner})`;
  }

  #quantified(item: string): string {
    const range = this.#quantifier();
    if (range === undefined) return item;
    // Greed does not matter: every match is as good as another.
    this.#take("?");
    return repeated(item, ...range);
  }

  #quantifier(): [min: number, max: number] | undefined {
    if (this.#take("*")) return [0, Infinity];
    if (this.#take("+")) return [1, Infinity];
    if (this.#take("?")) return [0, 1];
    if (!this.#take("{")) return undefined;
    let inside = "";
    for (let next = this.#next(); next !== "}"; next = this.#next()) inside += next;
    const [min = "", max] = inside.split(",");
    const range: [number, number] = [
      Number(min),
      max === undefined ? Number(min) : max === "" ? Infinity : Number(max),
    ];
    if (range.some((count) => count !== Infinity && count > MAX_REPEATS))
      throw this.#refuse(`repeats more than ${MAX_REPEATS} times`);
    return range;
  }

  #set(): readonly CharRange[] {
    const isNegated = this.#take("^");
    const ranges: CharRange[] = [];
    while (!this.#take("]")) {
      const first = this.#member();
      if (this.#peek() === "-" && this.#characters[this.#at + 1] !== "]" && first.length === 1) {
        this.#next();
        ranges.push([first[0]![0], this.#member()[0]![1]]);
      } else ranges.push(...first);
    }
    return isNegated ? complement(ranges) : ranges;
  }

  #member(): readonly CharRange[] {
    const character = this.#next();
    if (character !== "\\") return point(character);
    if (this.#take("b")) return [[8, 8]];
    return this.#take("-") ? point("-") : this.#escape();
  }

  #escape(): readonly CharRange[] {
    const character = this.#next();
    const known = CLASSES[character];
    if (known !== undefined) return known;
    const control = CONTROLS[character];
    if (control !== undefined) return [[control, control]];
    if (character === "x") return this.#coded(2);
    if (character === "u") return this.#take("{") ? this.#codedUntil("}") : this.#coded(4);
    if (/[A-Za-z0-9]/.test(character)) throw this.#refuse(`has \\${character}, which a grammar cannot follow`);
    return point(character);
  }

  #coded(length: number): readonly CharRange[] {
    const code = Number.parseInt(Array.from({ length }, () => this.#next()).join(""), 16);
    return [[code, code]];
  }

  #codedUntil(end: string): readonly CharRange[] {
    let code = "";
    for (let next = this.#next(); next !== end; next = this.#next()) code += next;
    const value = Number.parseInt(code, 16);
    return [[value, value]];
  }

  #one(ranges: readonly CharRange[]): string {
    const allowed = common(ranges, this.#allowed);
    const [only] = allowed;
    if (only !== undefined && allowed.length === 1 && only[0] === only[1])
      return literal(String.fromCodePoint(only[0]));
    const shown = charClass(allowed);
    if (shown === undefined)
      throw this.#refuse("asks for a character that cannot stand there, such as a quote in a JSON string");
    return shown;
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #next(): string {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw this.#refuse("ends too early");
    return character;
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #refuse(why: string) {
    return refuse(this.#pattern, why);
  }
}

function point(character: string): readonly CharRange[] {
  const code = character.codePointAt(0) ?? 0;
  return [[code, code]];
}

function refuse(pattern: string, why: string) {
  const shown = pattern.length > 80 ? `${pattern.slice(0, 80)}...` : pattern;
  return invalidConstraint("pattern", `The pattern ${JSON.stringify(shown)} ${why}. Write it without.`);
}
