/**
 * Tells an answer that leaves the work undone from a finished one: `17 \cdot 23`, `2^{10}` or `782/2` where the truth is a number.
 *
 * Whoever asks for 1024 has not been answered by `2^{10}`, which may be the task itself. Whoever asks for `2^{10}` takes 1024 too.
 */
import { isSameRational, type Rational, rational } from "../../numbers/rational.ts";
import type { Answer } from "./answer.ts";
import { compareExpressions } from "./compare-expressions.ts";
import { evaluate, isExact } from "./evaluate.ts";
import type { Expression } from "./expression.ts";
import { parseAnswer } from "./parse-answer.ts";

/**
 * Whether all values of the truth are written out and one of the candidate's is not. Written out are whole numbers, decimals,
 * scientific notation, mixed numbers, and fractions of whole numbers that are not whole themselves. An exact value such as
 * `\sqrt{2}` is finished where the truth is its rounded decimal.
 */
export function isUnfinished(truth: string, candidate: string): boolean {
  const expected = finalValues(parseAnswer(truth));
  if (expected.length === 0 || !expected.every((value) => value !== null && isWrittenOut(value))) return false;
  return finalValues(parseAnswer(candidate)).some((value) => value === null || isUndone(value, expected));
}

/** The values that an answer states; null for mathematics that is not read here, such as a sum over an index. */
function finalValues(answer: Answer): readonly (Expression | null)[] {
  switch (answer.kind) {
    case "value":
      return [answer.expression];
    case "opaque":
      return [null];
    case "relation":
      return finalValues(answer.sides.at(-1)!);
    case "list":
    case "set":
    case "tuple":
      return answer.items.flatMap(finalValues);
    case "union":
      return answer.parts.flatMap(finalValues);
    case "matrix":
      return answer.rows.flat().flatMap(finalValues);
    case "choice":
    case "words":
      return [];
  }
}

/** A value that could have been written out: it is a fraction, or exactly one of those that were expected. */
function isUndone(value: Expression, expected: readonly (Expression | null)[]): boolean {
  if (isWrittenOut(value)) return false;
  if (isExact(evaluate(value, new Map()))) return true;
  return expected.some((truth) => truth !== null && compareExpressions(truth, value, EXACTLY) === "equal");
}

const EXACTLY = { roundedDigits: Number.POSITIVE_INFINITY };

function isWrittenOut(expression: Expression): boolean {
  if (expression.kind !== "apply") return expression.kind === "number" || isInfinity(expression);
  const [a, b] = expression.args;
  switch (expression.name) {
    case "negate":
      return isWrittenOut(a!) && !isNegation(a!);
    case "divide":
      return isWholeNumber(isNegation(a!) ? a.args[0]! : a!) && isWholeNumber(b!) && !isWholeValue(expression);
    case "multiply":
      return isScientific(a!, b!);
    case "multiple":
      return isWrittenOut(a!);
    default:
      return expression.name === "mixed";
  }
}

function isInfinity(expression: Expression): boolean {
  return expression.kind === "constant" && expression.name === "infinity";
}

function isNegation(expression: Expression): expression is Extract<Expression, { kind: "apply" }> {
  return expression.kind === "apply" && expression.name === "negate";
}

function isWholeNumber(expression: Expression): boolean {
  return expression.kind === "number" && expression.decimals === null && expression.value.denominator === 1n;
}

function isWholeValue(expression: Expression): boolean {
  const value = evaluate(expression, new Map());
  return isExact(value) && value.denominator === 1n;
}

/** `3.91 \cdot 10^{2}`, with one digit before the point: `39.1 \cdot 10` is a product that was not computed. */
function isScientific(factor: Expression, power: Expression): boolean {
  if (factor.kind !== "number" || power.kind !== "apply" || power.name !== "power") return false;
  const [base, exponent] = power.args;
  const isPowerOfTen = base!.kind === "number" && isSameRational(base!.value, TEN) && isWholeValue(exponent!);
  return isPowerOfTen && isBetween(factor.value, 1n, 10n);
}

const TEN = rational(10n);

function isBetween({ numerator, denominator }: Rational, from: bigint, below: bigint): boolean {
  return numerator >= from * denominator && numerator < below * denominator;
}
