/** Reads a Python list of calls with literal arguments. Anything else is not one. */
import type { ParsedCall } from "./tool-call-format.ts";

/** Ends the reading of a text that is no list of calls; never leaves this file. */
class NotPython extends Error {}

export class PythonReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** The calls of the whole text, which may also be objects with a name and parameters, as forced calls are. */
  calls(): readonly ParsedCall[] | undefined {
    try {
      const calls = this.#list("[", "]", () => (this.#peek() === "{" ? this.#object() : this.#call()));
      this.#skip();
      return calls.length > 0 && this.#at === this.#text.length ? calls : undefined;
    } catch (cause) {
      if (cause instanceof NotPython) return undefined;
      throw cause;
    }
  }

  #call(): ParsedCall {
    const name = this.#match(/[A-Za-z_][\w.-]*/y);
    const pairs = this.#list("(", ")", () => {
      const key = this.#match(/[A-Za-z_]\w*/y);
      this.#expect("=");
      return [key, this.#value(0)] as const;
    });
    return { name, arguments: JSON.stringify(Object.fromEntries(pairs)) };
  }

  #object(): ParsedCall {
    const value = this.#value(0) as { name?: unknown; parameters?: unknown; arguments?: unknown };
    if (typeof value.name !== "string") throw new NotPython();
    return { name: value.name, arguments: JSON.stringify(value.parameters ?? value.arguments ?? {}) };
  }

  #value(depth: number): unknown {
    if (depth > MAX_DEPTH) throw new NotPython();
    const next = this.#peek();
    if (next === '"' || next === "'") return this.#string(next);
    if (next === "[") return this.#list("[", "]", () => this.#value(depth + 1));
    if (next === "(") return this.#list("(", ")", () => this.#value(depth + 1));
    if (next === "{") {
      const pairs = this.#list("{", "}", () => {
        const quote = this.#peek();
        if (quote !== '"' && quote !== "'") throw new NotPython();
        const key = this.#string(quote);
        this.#expect(":");
        return [key, this.#value(depth + 1)] as const;
      });
      return Object.fromEntries(pairs);
    }
    const word = this.#match(/[\w.+-]+/y);
    if (WORDS.has(word)) return WORDS.get(word);
    if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word)) return Number(word);
    throw new NotPython();
  }

  #string(quote: string): string {
    this.#expect(quote);
    let text = "";
    for (;;) {
      const character = this.#text[this.#at++];
      if (character === undefined) throw new NotPython();
      if (character === quote) return text;
      text += character === "\\" ? this.#escape() : character;
    }
  }

  #escape(): string {
    const letter = this.#text[this.#at++] ?? "";
    if (letter === "u") return String.fromCharCode(Number.parseInt(this.#match(/[0-9a-fA-F]{4}/y), 16));
    return ESCAPES.get(letter) ?? letter;
  }

  #list<Item>(open: string, close: string, read: () => Item): Item[] {
    this.#expect(open);
    const items: Item[] = [];
    while (this.#peek() !== close) {
      items.push(read());
      if (this.#peek() !== close) this.#expect(",");
    }
    this.#expect(close);
    return items;
  }

  #skip(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #peek(): string | undefined {
    this.#skip();
    return this.#text[this.#at];
  }

  #expect(character: string): void {
    if (this.#peek() !== character) throw new NotPython();
    this.#at++;
  }

  #match(pattern: RegExp): string {
    this.#skip();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) throw new NotPython();
    this.#at += found.length;
    return found;
  }
}

const MAX_DEPTH = 64;
const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["True", true],
  ["true", true],
  ["False", false],
  ["false", false],
  ["None", null],
  ["null", null],
]);
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["t", "\t"],
  ["r", "\r"],
  ["b", "\b"],
  ["f", "\f"],
]);
