/**
 * Decides whether two expressions have the same value wherever both are defined.
 *
 * Constants are compared as exact fractions where they are such, else in floating point with a bound on the error. Expressions
 * in variables are compared at fixed pseudo-random points: fractions of both signs, and whole numbers. "equal" is said only
 * where the points leave no reasonable doubt, "different" only where a value differs by more than rounding; else "unknown".
 */

import { isSameRational, type Rational, rational, toNumber } from "../../numbers/rational.ts";
import { deriveSeed } from "../../random/random.ts";
import { add, type Complex, isHuge, isReal, negate, size } from "./complex.ts";
import { approximate, evaluate, foldConstants, isExact, type Point } from "./evaluate.ts";
import { type Expression, someNode, variablesOf } from "./expression.ts";

export type Verdict = "equal" | "different" | "unknown";

/** A decimal stands for what rounds to it once it is written with this many significant digits. */
export interface RoundingRule {
  readonly roundedDigits: number;
}

export function compareExpressions(a: Expression, b: Expression, { roundedDigits }: RoundingRule): Verdict {
  if (hasInfinity(a) || hasInfinity(b)) return compareInfinite(a, b);
  const variables = variablesOf(a, b);
  if (variables.length === 0) return isRoundedTo(a, b, roundedDigits) ? "equal" : compareAt(a, b, NOWHERE);
  const isImaginary = someNode(a, isImaginaryUnit) || someNode(b, isImaginaryUnit);
  const [left, right] = [foldConstants(a), foldConstants(b)];
  let numEqual = 0;
  for (const [i, kind] of POINT_KINDS.entries()) {
    const verdict = compareAt(left, right, drawPoint(variables, kind, i), !isImaginary);
    if (verdict === "different") return verdict;
    if (verdict === "equal") numEqual++;
  }
  return numEqual >= MIN_POINTS ? "equal" : "unknown";
}

/** The values of all variables at a point that depends on their names and `index` only. */
export function drawPoint(variables: readonly string[], kind: PointKind, index: number): Point {
  return new Map(variables.map((name) => [name, drawValue(deriveSeed(index, name), kind, index)]));
}

export type PointKind = "positive" | "negative" | "mixed" | "whole";

const POINT_KINDS: readonly PointKind[] = [
  "positive",
  "positive",
  "positive",
  "negative",
  "mixed",
  "mixed",
  "whole",
  "whole",
  "whole",
  "whole",
];

const NOWHERE: Point = new Map();

/** Factorials and signs such as (-1)^n are defined at the whole points only, so these have to suffice. */
const MIN_POINTS = 3;

/** Relative: differences above rounding but below this are left to higher precision. */
const TOO_CLOSE = 1e-11;

function drawValue(seed: number, kind: PointKind, index: number): Rational {
  // Both parities occur, so that floors and powers of -1 show.
  if (kind === "whole") return rational(BigInt(2 + 2 * (seed % 6) + (index % 2)));
  const isNegative = kind === "negative" || (kind === "mixed" && ((seed >>> 16) & 1) === 1);
  const numerator = BigInt(31 + (seed % 300));
  return rational(isNegative ? -numerator : numerator, 101n);
}

/**
 * Where neither has a real value (the root of a negative number), branches are a convention and the point says nothing. Where
 * only one has, they differ: ln x is not ln |x|.
 */
function compareAt(a: Expression, b: Expression, point: Point, isRealOnly = false): Verdict {
  const [left, right] = [evaluate(a, point), evaluate(b, point)];
  if (isExact(left) && isExact(right)) return isSameRational(left, right) ? "equal" : "different";
  const [valueA, valueB] = [approximate(left), approximate(right)];
  if (Number.isNaN(valueA.re) || Number.isNaN(valueB.re)) return "unknown";
  if (isHuge(valueA) || isHuge(valueB)) return isHuge(valueA) && isHuge(valueB) ? "unknown" : "different";
  if (isRealOnly && !isReal(valueA) && !isReal(valueB)) return "unknown";
  return compareNumbers(valueA, valueB);
}

function compareNumbers(a: Complex, b: Complex): Verdict {
  const distance = size(add(a, negate(b)));
  const scale = Math.max(size(a), size(b));
  const error = 8 * (a.error + b.error);
  // The sum is unknown where one of them vanishes beside the other: they are far apart.
  if (Number.isNaN(distance)) return "different";
  if (distance > error) return distance > TOO_CLOSE * scale ? "different" : "unknown";
  return error <= 1e-9 * Math.max(scale, 1) ? "equal" : "unknown";
}

function isRoundedTo(a: Expression, b: Expression, roundedDigits: number): boolean {
  const decimalsA = significantDecimals(a, roundedDigits);
  const decimalsB = significantDecimals(b, roundedDigits);
  if (decimalsA === null && decimalsB === null) return false;
  const [valueA, valueB] = [approximate(evaluate(a, NOWHERE)), approximate(evaluate(b, NOWHERE))];
  if (isWhole(a) || isWhole(b) || !isReal(valueA) || !isReal(valueB)) return false;
  const isShortDecimal = (isWritten: boolean, decimals: number | null) => isWritten && decimals === null;
  if (isShortDecimal(writtenDecimal(a) !== null, decimalsA) || isShortDecimal(writtenDecimal(b) !== null, decimalsB))
    return false;
  const decimals = Math.min(decimalsA ?? Number.POSITIVE_INFINITY, decimalsB ?? Number.POSITIVE_INFINITY);
  return Math.abs(valueA.re - valueB.re) <= 0.5 * 10 ** -decimals * (1 + 1e-9);
}

/** Digits after the point of a decimal with enough significant digits to stand for a rounded value. */
function significantDecimals(expression: Expression, roundedDigits: number): number | null {
  const written = writtenDecimal(expression);
  if (written === null) return null;
  const digits = Math.round(Math.abs(toNumber(written.value)) * 10 ** written.decimals).toString().length;
  return digits >= roundedDigits ? written.decimals : null;
}

function writtenDecimal(expression: Expression): { value: Rational; decimals: number } | null {
  if (expression.kind === "apply" && expression.name === "negate") return writtenDecimal(expression.args[0]!);
  if (expression.kind !== "number" || expression.decimals === null) return null;
  return { value: expression.value, decimals: expression.decimals };
}

function isWhole(expression: Expression): boolean {
  const value = evaluate(expression, NOWHERE);
  return isExact(value) && value.denominator === 1n;
}

function compareInfinite(a: Expression, b: Expression): Verdict {
  const [signA, signB] = [infinitySign(a), infinitySign(b)];
  if (signA !== 0 && signB !== 0) return signA === signB ? "equal" : "different";
  return hasInfinity(a) && hasInfinity(b) ? "unknown" : "different";
}

function infinitySign(expression: Expression): number {
  if (expression.kind === "constant") return expression.name === "infinity" ? 1 : 0;
  return expression.kind === "apply" && expression.name === "negate" ? -infinitySign(expression.args[0]!) : 0;
}

function hasInfinity(expression: Expression): boolean {
  return someNode(expression, (node) => node.kind === "constant" && node.name === "infinity");
}

function isImaginaryUnit(node: Expression): boolean {
  return node.kind === "constant" && node.name === "i";
}
