/**
 * Turns a written answer (LaTeX, or plain text as models write it) into tokens in one normal form.
 *
 * Spacing, sizes, delimiters, font commands, \dfrac, \left, braces around one digit, Unicode signs and thousands separators do
 * not survive: two answers that differ only in these give the same tokens. Nothing else is lost: `1 2` and `12` stay apart.
 */
import { FUNCTION_NAMES } from "./expression.ts";
import * as signs from "./latex-signs.ts";
import { isUnitName } from "./units.ts";

/** `letter` holds one variable or Greek name; `command` a LaTeX command without its backslash; `text` words in lower case. */
export interface Token {
  readonly kind: "number" | "letter" | "command" | "text" | "symbol";
  readonly text: string;
}

/** The tokens of one answer. Never fails: what it does not know becomes a symbol or a command of its own. */
export function readTokens(source: string): Token[] {
  const lexer = new Lexer(source.replace(signs.UNICODE, (sign) => signs.UNICODE_SIGNS[sign] ?? sign));
  const tokens = lexer.readAll();
  while (isFinalStop(tokens.at(-1))) tokens.pop();
  return tokens;
}

/** The same text for the same tokens, and only for them. */
export function tokenText(tokens: readonly Token[]): string {
  return tokens
    .map(({ kind, text }) => (kind === "command" ? `\\${text}` : kind === "text" ? `"${text}"` : text))
    .join(" ");
}

class Lexer {
  readonly #source: string;
  #position = 0;
  #depth = 0;
  #tokens: Token[] = [];

  constructor(source: string) {
    this.#source = source;
  }

  readAll(): Token[] {
    while (this.#position < this.#source.length) this.#readOne();
    return this.#tokens;
  }

  #readOne(): void {
    const rest = this.#peek();
    if (/[\s$~]/.test(rest)) this.#position++;
    else if (rest === "\\") this.#readBackslash();
    else if (/[\d.]/.test(rest) && this.#readNumber()) return;
    else if (/[A-Za-z]/.test(rest)) this.#readLetters();
    else if (rest === "^" || rest === "_") this.#readScript(rest);
    else this.#readSymbol();
  }

  #peek(): string {
    return this.#source[this.#position] ?? "";
  }

  /** The pattern has to be sticky: it matches here or not at all. */
  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#position;
    const match = pattern.exec(this.#source);
    if (match !== null) this.#position += match[0].length;
    return match;
  }

  #emit(kind: Token["kind"], text: string): void {
    this.#tokens.push({ kind, text });
  }

  #readBackslash(): void {
    const name = this.#take(/\\([A-Za-z]+)\*?/y)?.[1];
    if (name !== undefined) this.#readCommand(signs.SAME_COMMAND[name] ?? name);
    else this.#readEscapedSign();
  }

  #readEscapedSign(): void {
    const sign = this.#source[this.#position + 1] ?? "";
    this.#position += 2;
    if (sign === "\\") this.#emit("symbol", "\\\\");
    else if (sign === "{" || sign === "}") this.#emitBracket(`\\${sign}`);
    else if (sign === "%") this.#emit("symbol", "%");
    else if (sign === "$") this.#emit("symbol", "\\$");
    else if (sign === "|") this.#emit("symbol", "|");
    else if (sign === "&") this.#emit("text", "and");
    // What is left is spacing and math delimiters: \, \; \: \! \( \) \[ \].
  }

  #readCommand(name: string): void {
    if (name === "left" || name === "right") this.#take(/\s*\./y);
    else if (signs.DROPPED_WITH_GROUP.has(name)) this.#takeGroup();
    else if (signs.TEXTUAL.has(name)) this.#readText(this.#takeGroup());
    else if (signs.FONTS.has(name)) this.#readBold(name, this.#takeGroup().trim());
    else if (name === "overline" && this.#tokens.at(-1)?.kind === "number") this.#readRepeatingDecimal();
    else if (signs.NAMED_LETTERS.has(name)) this.#emit("letter", `\\${name} ${this.#takeGroup().trim()}`);
    else if (signs.GREEK.has(name)) this.#emit("letter", `\\${name}`);
    else if (name === "lbrace" || name === "rbrace" || name === "lbrack" || name === "rbrack")
      this.#emitBracket(signs.COMMAND_SYMBOLS[name]!);
    else if (signs.COMMAND_SYMBOLS[name] !== undefined) this.#emit("symbol", signs.COMMAND_SYMBOLS[name]);
    else if (name === "begin" || name === "end") this.#emit("command", `${name} ${this.#takeGroup()}`);
    else if (!signs.DROPPED.has(name)) this.#emitCommand(name);
  }

  #emitCommand(name: string): void {
    this.#emit("command", name);
    if (name === "sqrt" && this.#take(/\s*\[/y) !== null) {
      const end = this.#source.indexOf("]", this.#position);
      const index = this.#source.slice(this.#position, end === -1 ? this.#source.length : end);
      this.#position += index.length + 1;
      this.#emit("symbol", "[");
      this.#tokens.push(...new Lexer(index).readAll());
      this.#emit("symbol", "]");
    }
    for (let i = 0; i < (signs.NUM_ARGUMENTS[name] ?? 0); i++) this.#readArgument(/\d/y);
  }

  #readScript(sign: string): void {
    if (this.#take(/\^\s*(?:\{\s*\\(?:circ|degree)\s*\}|\\circ(?![A-Za-z]))/y) !== null) this.#emit("symbol", "°");
    else {
      this.#position++;
      this.#emitScript(sign);
    }
  }

  #emitScript(sign: string): void {
    this.#emit("symbol", sign);
    this.#readArgument(/[+-]?\d+/y);
  }

  /** One argument in braces of its own, whether it was written `{4}`, `(4)`, `4` or `\pi`. */
  #readArgument(bare: RegExp): void {
    this.#take(/\s+/y);
    this.#emit("symbol", "{");
    const number = this.#take(bare)?.[0];
    const sign = number === undefined ? this.#take(/[+-]/y)?.[0] : undefined;
    if (sign !== undefined) this.#emit("symbol", sign);
    if (number !== undefined) this.#tokens.push(...new Lexer(number).readAll());
    else if (this.#peek() === "{" || this.#peek() === "(") this.#tokens.push(...new Lexer(this.#takeGroup()).readAll());
    else if (/[A-Za-z]/.test(this.#peek())) this.#emit("letter", this.#take(/[A-Za-z]/y)?.[0] ?? "");
    else if (this.#peek() === "\\") this.#readBackslash();
    this.#emit("symbol", "}");
  }

  /** What stands between balanced braces or parentheses here, or one character where there are none. */
  #takeGroup(): string {
    this.#take(/\s+/y);
    const open = this.#peek();
    if (open !== "{" && open !== "(") return this.#take(/\\[A-Za-z]+|[\s\S]/y)?.[0] ?? "";
    const close = open === "{" ? "}" : ")";
    let depth = 0;
    for (let end = this.#position; end < this.#source.length; end++) {
      if (this.#source[end] === "\\") end++;
      else if (this.#source[end] === open) depth++;
      else if (this.#source[end] === close && --depth === 0) {
        const inside = this.#source.slice(this.#position + 1, end);
        this.#position = end + 1;
        return inside;
      }
    }
    const inside = this.#source.slice(this.#position + 1);
    this.#position = this.#source.length;
    return inside;
  }

  /** A bold letter is that letter; a bold 0 is the zero vector and not the number. */
  #readBold(name: string, content: string): void {
    if (/^\d+$/.test(content)) this.#emit("letter", `\\${name} ${content}`);
    else this.#tokens.push(...new Lexer(content).readAll());
  }

  /** Words stay text, and so does one letter behind a number, which is a unit; `\text{(C)}` is as good as `(C)`. */
  #readText(content: string): void {
    const text = content
      .replace(/\\[ ,;!]|[$~]/g, " ")
      .replace(/\s+/g, " ")
      .trim();
    const isUnit = /^[a-zA-Z]$/.test(text) && !/[eid]/.test(text) && this.#tokens.at(-1)?.kind === "number";
    const isWords = /[A-Za-z]{2}|[A-Za-z]\s*\d|[A-Za-z]\.[A-Za-z]/.test(text) && !/[\\^_]/.test(text);
    if (FUNCTION_NAMES.has(text)) this.#emitCommand(text);
    else if (isWords || isUnit) this.#emit("text", text.toLowerCase().replace(/^[,\s]+|[.,\s]+$/g, ""));
    else this.#tokens.push(...new Lexer(text).readAll());
  }

  #readNumber(): boolean {
    const grouped =
      this.#take(/\d{1,3}(?:(?:,\s*\\!|\{,\}|\\,)\s*\d{3})+(?!\d)(?:\.\d+)?/y)?.[0] ??
      (this.#depth === 0 ? this.#take(/[1-9]\d{0,2}(?:,\d{3})+(?![\d,]*,?\d)(?:\.\d+)?/y)?.[0] : undefined);
    if (grouped !== undefined) return this.#emitNumber(grouped.replace(/[^\d.]/g, ""));
    const scientific = this.#take(/(?:\d*\.\d+[eE][+-]?\d+|\d+(?:E[+-]?\d+|e\d+|e[+-]\d{2,}))(?![\dA-Za-z^{])/y)?.[0];
    if (scientific !== undefined) return this.#emitNumber(scientific.toLowerCase());
    const plain = this.#take(/\d+(?:\.\d+|\.(?=\s*\\overline))?|\.\d+/y)?.[0];
    return plain !== undefined && this.#emitNumber(plain);
  }

  #emitNumber(text: string): true {
    this.#emit("number", text.startsWith(".") ? `0${text}` : text);
    return true;
  }

  /** `0.1\overline{36}` becomes the number `0.1(36)`. */
  #readRepeatingDecimal(): void {
    const before = this.#tokens.pop()!.text;
    this.#emit("number", `${before}${before.includes(".") ? "" : "."}(${this.#takeGroup().trim()})`);
  }

  #readLetters(): void {
    const run = this.#take(/[A-Za-z]+/y)?.[0] ?? "";
    const lower = run.toLowerCase();
    const [, name, argument] = signs.GLUED_FUNCTION.exec(run) ?? [];
    if (signs.PLAIN_COMMANDS.has(run)) this.#emit("command", signs.SAME_COMMAND[run] ?? run);
    else if (name !== undefined && argument !== undefined)
      this.#tokens.push({ kind: "command", text: name }, { kind: "letter", text: argument });
    else if (run.length > 3 || (run.length > 1 && (signs.SHORT_WORDS.has(lower) || isUnitName(lower))))
      this.#emitWord(lower);
    else for (const letter of run) this.#emit("letter", letter);
  }

  /** Words that follow each other are one text, as they are inside \text{}. */
  #emitWord(word: string): void {
    const last = this.#tokens.at(-1);
    const isSeparator = (text: string) => text === "or" || text === "and";
    if (last?.kind !== "text" || isSeparator(word) || isSeparator(last.text)) this.#emit("text", word);
    else this.#tokens[this.#tokens.length - 1] = { kind: "text", text: `${last.text} ${word}` };
  }

  #readSymbol(): void {
    const text = this.#take(/\*\*|<=|>=|!=|==|[\s\S]/y)?.[0] ?? "";
    const same: Readonly<Record<string, string>> = { "<=": "leq", ">=": "geq", "!=": "neq" };
    if (same[text] !== undefined) this.#emit("command", same[text]);
    else if (text === "**") this.#emitScript("^");
    else if (text === "==") this.#emit("symbol", "=");
    else if (/[()[\]]/.test(text)) this.#emitBracket(text);
    else this.#emit("symbol", text);
  }

  #emitBracket(text: string): void {
    this.#depth += "([\\{".includes(text) ? 1 : -1;
    this.#emit("symbol", text);
  }
}

function isFinalStop(token: Token | undefined): boolean {
  return token?.kind === "symbol" && (token.text === "." || token.text === "," || token.text === ";");
}
