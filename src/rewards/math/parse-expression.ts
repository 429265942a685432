/**
 * Reads tokens as one expression by the conventions of written mathematics.
 *
 * Products may be implied, `2\frac{1}{2}` is a mixed number, `\sin 2x` takes the product that follows, `f(x)` is a function of x
 * and `a(x)` a product. Gives null where the tokens are no expression, or use notation that is not known here (sums,
 * integrals, primes): it never guesses.
 */

import { readRational } from "../../numbers/rational.ts";
import { apply, type Expression, FUNCTION_NAMES, integer } from "./expression.ts";
import type { Token } from "./latex-tokens.ts";
import { tokenText } from "./latex-tokens.ts";

/** Null where these tokens are not one whole expression. */
export function parseExpression(tokens: readonly Token[]): Expression | null {
  if (tokens.length === 0 || tokens.length > MAX_TOKENS) return null;
  return new ExpressionParser(tokens).parse();
}

/** Bounds the depth of recursion; no answer of a data set comes near. */
const MAX_TOKENS = 600;

/** Letters that name functions when a parenthesis follows. Read as products, `2f(0)` would be 0. */
const FUNCTION_LETTERS = new Set(
  "f g h u F G H O P Q T W L U V \\Gamma \\zeta \\phi \\Phi \\psi \\Psi \\sigma \\tau \\omega \\chi \\mu \\Theta \\Omega".split(
    " ",
  ),
);
const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };
const NOTHING: Expression = { kind: "variable", name: "" };

class ExpressionParser {
  readonly #tokens: readonly Token[];
  #position = 0;
  #openBars = 0;
  #hasFailed = false;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): Expression | null {
    const expression = this.#sum();
    return this.#hasFailed || this.#position < this.#tokens.length ? null : expression;
  }

  #sum(): Expression {
    let left = this.#signedTerm();
    while (!this.#hasFailed) {
      if (this.#accept("+")) left = apply("add", left, this.#term());
      else if (this.#accept("-")) left = apply("add", left, apply("negate", this.#term()));
      else if (this.#acceptCommand("pm")) left = apply("plusMinus", left, this.#term());
      else if (this.#acceptCommand("mp")) left = apply("minusPlus", left, this.#term());
      else break;
    }
    return left;
  }

  #signedTerm(): Expression {
    if (this.#accept("-")) return apply("negate", this.#term());
    if (this.#acceptCommand("pm")) return apply("plusMinus", integer(0), this.#term());
    if (this.#acceptCommand("mp")) return apply("minusPlus", integer(0), this.#term());
    this.#accept("+");
    return this.#term();
  }

  #term(): Expression {
    let left = this.#factor();
    while (!this.#hasFailed) {
      if (this.#accept("*")) left = apply("multiply", left, this.#factor());
      else if (this.#accept("/")) left = apply("divide", left, this.#factor());
      else if (this.#startsFactor()) left = apply("multiply", left, this.#factor());
      else break;
    }
    return left;
  }

  #factor(): Expression {
    if (this.#accept("-")) return apply("negate", this.#factor());
    const name = this.#peek()?.kind === "command" ? this.#peek()!.text : "";
    return FUNCTION_NAMES.has(name) ? this.#namedFunction() : this.#withScripts(this.#atom());
  }

  /** Whether a product goes on here without a sign. Two numbers side by side are none, but `(n+1)2` is. */
  #startsFactor(): boolean {
    const token = this.#peek();
    if (token === undefined) return false;
    if (token.kind === "letter") return true;
    if (token.kind === "number") return this.#tokens[this.#position - 1]?.text === ")";
    if (token.kind === "symbol") return "([{".includes(token.text) || (token.text === "|" && this.#openBars === 0);
    return token.kind === "command" && (FUNCTION_NAMES.has(token.text) || ATOM_COMMANDS.has(token.text));
  }

  #withScripts(base: Expression): Expression {
    let result = base;
    while (!this.#hasFailed) {
      if (this.#accept("^")) result = apply("power", result, this.#group("{"));
      else if (this.#accept("!")) result = apply("factorial", result);
      else if (this.#accept("°")) result = apply("degrees", result);
      else if (this.#accept("%")) result = apply("percent", result);
      else break;
    }
    return result;
  }

  #atom(): Expression {
    const token = this.#next();
    if (token === undefined) return this.#fail();
    if (token.kind === "number") return this.#number(token.text);
    if (token.kind === "letter") return this.#letter(token.text);
    if (token.kind === "symbol") return this.#grouped(token.text);
    return token.kind === "command" ? this.#command(token.text) : this.#fail();
  }

  #grouped(open: string): Expression {
    this.#position--;
    if (open !== "|") return this.#group(open);
    this.#position++;
    this.#openBars++;
    const inside = this.#sum();
    this.#openBars--;
    this.#expect("|");
    return apply("abs", inside);
  }

  #group(open: string): Expression {
    const close = CLOSING[open];
    if (close === undefined) return this.#fail();
    this.#expect(open);
    const bars = this.#openBars;
    this.#openBars = 0;
    const inside = this.#sum();
    this.#openBars = bars;
    this.#expect(close);
    return inside;
  }

  #command(name: string): Expression {
    switch (name) {
      case "pi":
        return { kind: "constant", name: "pi" };
      case "infty":
        return { kind: "constant", name: "infinity" };
      case "frac":
        return apply("divide", this.#group("{"), this.#group("{"));
      case "binom":
        return apply("binomial", this.#group("{"), this.#group("{"));
      case "sqrt":
        return this.#root();
      case "lfloor":
        return this.#between("floor", "rfloor");
      case "lceil":
        return this.#between("ceil", "rceil");
      default:
        return this.#fail();
    }
  }

  #root(): Expression {
    const index = this.#peek()?.text === "[" ? this.#group("[") : integer(2);
    return apply("root", this.#group(this.#peek()?.text === "(" ? "(" : "{"), index);
  }

  #between(name: string, close: string): Expression {
    const inside = this.#sum();
    if (!this.#acceptCommand(close)) this.#fail();
    return apply(name, inside);
  }

  #number(text: string): Expression {
    const subscript = this.#subscript();
    // A numeral in another base is a name: it equals itself only.
    if (subscript !== "") return { kind: "variable", name: `${text}_${subscript}` };
    const value = readRational(text);
    if (value === null) return this.#fail();
    const point = /\.(\d+)(?:e([+-]?\d+))?$/.exec(text);
    const decimals = point === null ? null : point[1]!.length - Number(point[2] ?? 0);
    const whole: Expression = { kind: "number", value, decimals };
    const fraction = decimals === null ? this.#mixedFraction() : null;
    return fraction === null ? whole : apply("mixed", whole, fraction);
  }

  /** The fraction of a mixed number, as `\frac{1}{2}` or `1/2` directly after a whole number. It has to be below one. */
  #mixedFraction(): Expression | null {
    const written = tokenText(this.#tokens.slice(this.#position, this.#position + 7));
    const [whole, top, bottom] =
      /^\\frac { (\d+) } { (\d+) }(?: |$)/.exec(written) ?? /^(\d+) \/ (\d+)(?: |$)/.exec(written) ?? [];
    if (whole === undefined || top === undefined || bottom === undefined || BigInt(top) >= BigInt(bottom)) return null;
    this.#position += whole.startsWith("\\") ? 7 : 3;
    return apply("divide", integer(BigInt(top)), integer(BigInt(bottom)));
  }

  #letter(letter: string): Expression {
    const subscript = this.#subscript();
    const name = subscript === "" ? letter : `${letter}_${subscript}`;
    if (FUNCTION_LETTERS.has(letter) && this.#peek()?.text === "(") return this.#unknownFunction(name);
    if (name === "e" || name === "i") return { kind: "constant", name };
    return { kind: "variable", name };
  }

  #unknownFunction(name: string): Expression {
    this.#expect("(");
    const args = [this.#sum()];
    while (!this.#hasFailed && this.#accept(",")) args.push(this.#sum());
    this.#expect(")");
    return apply(`call ${name}`, ...args);
  }

  #subscript(): string {
    if (!this.#accept("_")) return "";
    const start = this.#position;
    this.#expect("{");
    for (let depth = 1; depth > 0 && !this.#hasFailed; ) {
      const token = this.#next();
      if (token === undefined) this.#fail();
      else if (token.text === "{") depth++;
      else if (token.text === "}") depth--;
    }
    return tokenText(this.#tokens.slice(start + 1, this.#position - 1));
  }

  #namedFunction(): Expression {
    const name = this.#next()!.text;
    const base = name === "log" && this.#accept("_") ? this.#group("{") : null;
    const exponent = this.#accept("^") ? this.#group("{") : null;
    const argument = this.#functionArgument();
    const isInverse = exponent?.kind === "apply" && exponent.name === "negate" && isOne(exponent.args[0]);
    if (isInverse && INVERSES[name] !== undefined) return apply(INVERSES[name], argument);
    if (name === "exp") return apply("power", { kind: "constant", name: "e" }, argument);
    const value = base === null ? apply(name, argument) : apply("divide", apply("ln", argument), apply("ln", base));
    return this.#withScripts(exponent === null ? value : apply("power", value, exponent));
  }

  /** A group where one follows, else the product up to the next sign or function: `\sin 2x \cos x` is sin(2x) cos(x). */
  #functionArgument(): Expression {
    const first = this.#peek();
    if (first?.kind === "symbol" && "([{|".includes(first.text)) return this.#atom();
    if (first?.kind === "command" && FUNCTION_NAMES.has(first.text)) return this.#namedFunction();
    let argument = this.#withScripts(this.#atom());
    while (!this.#hasFailed && this.#startsFactor()) {
      const token = this.#peek()!;
      if (token.kind === "command" && FUNCTION_NAMES.has(token.text)) break;
      if (token.kind === "symbol") break;
      argument = apply("multiply", argument, this.#withScripts(this.#atom()));
    }
    return argument;
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#position];
  }

  #next(): Token | undefined {
    return this.#tokens[this.#position++];
  }

  #accept(symbol: string): boolean {
    const token = this.#peek();
    const isHere = token?.kind === "symbol" && token.text === symbol;
    if (isHere) this.#position++;
    return isHere;
  }

  #acceptCommand(name: string): boolean {
    const token = this.#peek();
    const isHere = token?.kind === "command" && token.text === name;
    if (isHere) this.#position++;
    return isHere;
  }

  #expect(symbol: string): void {
    if (!this.#accept(symbol)) this.#fail();
  }

  #fail(): Expression {
    this.#hasFailed = true;
    return NOTHING;
  }
}

const ATOM_COMMANDS = new Set(["pi", "infty", "frac", "binom", "sqrt", "lfloor", "lceil"]);
const INVERSES: Readonly<Record<string, string>> = { sin: "arcsin", cos: "arccos", tan: "arctan" };

function isOne(expression: Expression | undefined): boolean {
  return expression?.kind === "number" && expression.value.numerator === 1n && expression.value.denominator === 1n;
}
