/**
 * The exact value of an arithmetic expression.
 *
 * In: text with whole and decimal numbers, `+ - * / ^`, parentheses, and `×` `÷` `−` as people write them. `^` binds tightest
 * and takes whole exponents; a sign before a number binds weaker than `^`. Out: the value and the numbers that were written, or
 * what is wrong in words. Nothing is executed, and size and depth are limited, so any text is safe.
 */
import { type Rational, rational } from "../../numbers/rational.ts";

/** A value, or what is wrong, as the end of a sentence. */
type ArithmeticResult =
  | {
      readonly kind: "value";
      readonly value: Rational;
      /** Every number as it was written, in order. */
      readonly numbers: readonly string[];
    }
  | { readonly kind: "error"; readonly error: string };

/** Never throws, and takes at most milliseconds. */
export function evaluateArithmetic(text: string): ArithmeticResult {
  if (text.length > MAX_LENGTH)
    return { kind: "error", error: `the expression is longer than ${MAX_LENGTH} characters` };
  const parser = new Parser(text);
  try {
    return { kind: "value", value: parser.wholeText(), numbers: parser.numbers };
  } catch (error) {
    if (error instanceof ArithmeticError) return { kind: "error", error: error.message };
    throw error;
  }
}

const MAX_LENGTH = 1000;
const MAX_DEPTH = 100;
const MAX_EXPONENT = 1000n;
/** Most digits of numerator and denominator together. The time for common divisors grows with their square. */
const MAX_DIGITS = 1000;
const TOKEN = /\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/^()]))/y;

/** What is wrong with the expression. Leaves this file only as a result. */
class ArithmeticError extends Error {}

class Parser {
  readonly numbers: string[] = [];
  readonly #text: string;
  #position = 0;
  #depth = 0;
  /** The token ahead: a number, a sign, or "" at the end. */
  #next = "";

  constructor(text: string) {
    this.#text = text.replaceAll("×", "*").replaceAll("÷", "/").replaceAll("−", "-").trimEnd();
  }

  wholeText(): Rational {
    this.#advance();
    const value = this.#sum();
    if (this.#next !== "") throw new ArithmeticError(`unexpected "${this.#next}"`);
    return value;
  }

  #sum(): Rational {
    let value = this.#product();
    while (this.#next === "+" || this.#next === "-") {
      const sign = this.#advance() === "-" ? -1n : 1n;
      const right = this.#product();
      value = sized(
        value.numerator * right.denominator + sign * right.numerator * value.denominator,
        value.denominator * right.denominator,
      );
    }
    return value;
  }

  #product(): Rational {
    let value = this.#signed();
    while (this.#next === "*" || this.#next === "/") {
      const isDivision = this.#advance() === "/";
      const right = this.#signed();
      value = isDivision ? divided(value, right) : multiplied(value, right);
    }
    return value;
  }

  #signed(): Rational {
    if (this.#next !== "-" && this.#next !== "+") return this.#power();
    const sign = this.#advance() === "-" ? -1n : 1n;
    const { numerator, denominator } = this.#nested(() => this.#signed());
    return rational(sign * numerator, denominator);
  }

  #power(): Rational {
    const base = this.#atom();
    if (!this.#takes("^")) return base;
    return raised(
      base,
      this.#nested(() => this.#signed()),
    );
  }

  #atom(): Rational {
    if (this.#takes("(")) {
      const value = this.#nested(() => this.#sum());
      if (!this.#takes(")")) throw new ArithmeticError("a parenthesis is not closed");
      return value;
    }
    if (!/\d/.test(this.#next)) {
      throw new ArithmeticError(this.#next === "" ? "the expression ends too early" : `unexpected "${this.#next}"`);
    }
    const written = this.#advance();
    this.numbers.push(written);
    const [whole = "", decimals = ""] = written.split(".");
    return rational(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
  }

  #nested(read: () => Rational): Rational {
    if (++this.#depth > MAX_DEPTH) throw new ArithmeticError("the expression is nested too deeply");
    const value = read();
    this.#depth--;
    return value;
  }

  /** Takes the token ahead if it is this one. */
  #takes(token: string): boolean {
    const isAhead = this.#next === token;
    if (isAhead) this.#advance();
    return isAhead;
  }

  /** Takes the token ahead and returns it. */
  #advance(): string {
    const taken = this.#next;
    TOKEN.lastIndex = this.#position;
    const match = TOKEN.exec(this.#text);
    if (match === null && this.#position < this.#text.length) {
      throw new ArithmeticError(`unexpected "${this.#text.slice(this.#position).trim().slice(0, 20)}"`);
    }
    this.#position += match?.[0].length ?? 0;
    this.#next = match?.[1] ?? match?.[2] ?? "";
    return taken;
  }
}

function multiplied(left: Rational, right: Rational): Rational {
  return sized(left.numerator * right.numerator, left.denominator * right.denominator);
}

function divided(left: Rational, right: Rational): Rational {
  if (right.numerator === 0n) throw new ArithmeticError("division by zero");
  return sized(left.numerator * right.denominator, left.denominator * right.numerator);
}

function raised(base: Rational, { numerator: exponent, denominator }: Rational): Rational {
  if (denominator !== 1n) throw new ArithmeticError("exponents must be whole numbers");
  const size = exponent < 0n ? -exponent : exponent;
  const numDigits = BigInt(Math.max(String(base.numerator).length, String(base.denominator).length));
  if (size > MAX_EXPONENT || numDigits * size > BigInt(MAX_DIGITS))
    throw new ArithmeticError("the result is too large");
  const power = rational(base.numerator ** size, base.denominator ** size);
  return exponent < 0n ? divided(rational(1n), power) : power;
}

function sized(numerator: bigint, denominator: bigint): Rational {
  const result = rational(numerator, denominator);
  if (String(result.numerator).length + String(result.denominator).length > MAX_DIGITS) {
    throw new ArithmeticError("the result is too large");
  }
  return result;
}
