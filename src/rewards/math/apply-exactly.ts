/**
 * The operators whose values are exact fractions when their arguments are.
 *
 * Null where the value is no fraction (most roots), undefined, or so large that computing it would take noticeable time.
 */
import {
  addRational,
  bitLength,
  invertRational,
  multiplyRational,
  type Rational,
  rational,
} from "../../numbers/rational.ts";

/** The value of an operator or function on exact values; see the header. */
export function applyExactly(name: string, [a, b = ONE]: readonly Rational[]): Rational | null {
  const operation = OPERATIONS[name];
  return operation === undefined || a === undefined ? null : bounded(operation(a, b));
}

const ONE: Rational = { numerator: 1n, denominator: 1n };

/** Fractions take time squared in their size for the common divisor; whole numbers do not. */
const MAX_WHOLE_BITS = 40_000;
const MAX_FRACTION_BITS = 4_000;
const MAX_FACTORIAL = 1_000n;

const OPERATIONS: Readonly<Record<string, (a: Rational, b: Rational) => Rational | null>> = {
  add: addRational,
  mixed: addRational,
  negate: ({ numerator, denominator }) => ({ numerator: -numerator, denominator }),
  multiply: multiplyRational,
  multiple: multiplyRational,
  divide(a, b) {
    if (b.numerator === 0n) return null;
    // Two large whole numbers have a quotient worth knowing where it is whole; their common divisor takes too long.
    if (isLarge(a) && isLarge(b)) return a.numerator % b.numerator === 0n ? rational(a.numerator / b.numerator) : null;
    return rational(a.numerator * b.denominator, a.denominator * b.numerator);
  },
  percent: (a) => multiplyRational(a, { numerator: 1n, denominator: 100n }),
  abs: ({ numerator, denominator }) => ({ numerator: numerator < 0n ? -numerator : numerator, denominator }),
  floor: (a) => rational(floor(a)),
  ceil: ({ numerator, denominator }) => rational(-floor({ numerator: -numerator, denominator })),
  power,
  root: (a, index) => (index.numerator === 2n && index.denominator === 1n ? squareRoot(a) : null),
  factorial: (a) => (isCount(a) ? rational(product(1n, a.numerator)) : null),
  binomial(a, b) {
    if (!isCount(a) || !isCount(b)) return null;
    return b.numerator > a.numerator
      ? rational(0n)
      : rational(product(a.numerator - b.numerator + 1n, a.numerator) / product(1n, b.numerator));
  },
};

/** A whole number beyond what a fraction may consist of. */
function isLarge({ numerator, denominator }: Rational): boolean {
  return denominator === 1n && bitLength(numerator) > MAX_FRACTION_BITS;
}

function bounded(value: Rational | null): Rational | null {
  if (value === null) return null;
  const bits = bitLength(value.numerator) + bitLength(value.denominator);
  return bits > (value.denominator === 1n ? 2 * MAX_WHOLE_BITS : MAX_FRACTION_BITS) ? null : value;
}

function power(base: Rational, exponent: Rational): Rational | null {
  if (exponent.denominator !== 1n) {
    // Halves of exponents are square roots; other roots are left to floating point.
    const root = exponent.denominator === 2n ? squareRoot(base) : null;
    return root === null ? null : power(root, { numerator: exponent.numerator, denominator: 1n });
  }
  const count = exponent.numerator < 0n ? -exponent.numerator : exponent.numerator;
  const isWhole = base.denominator === 1n && exponent.numerator >= 0n;
  const bits = BigInt(Math.max(bitLength(base.numerator), bitLength(base.denominator)));
  if (bits * count > (isWhole ? MAX_WHOLE_BITS : MAX_FRACTION_BITS)) return null;
  if (base.numerator === 0n && exponent.numerator <= 0n) return null;
  const raised = { numerator: base.numerator ** count, denominator: base.denominator ** count };
  return exponent.numerator < 0n ? invertRational(raised) : raised;
}

function squareRoot({ numerator, denominator }: Rational): Rational | null {
  const top = wholeRoot(numerator);
  const bottom = wholeRoot(denominator);
  return top === null || bottom === null ? null : rational(top, bottom);
}

/** Newton's method in whole numbers; null where the value is no square. */
function wholeRoot(value: bigint): bigint | null {
  if (value < 0n || bitLength(value) > MAX_FRACTION_BITS) return null;
  if (value < 2n) return value;
  let guess = 1n << BigInt(Math.ceil((bitLength(value) + 1) / 2));
  for (let next = (guess + value / guess) >> 1n; next < guess; next = (guess + value / guess) >> 1n) guess = next;
  return guess * guess === value ? guess : null;
}

function floor({ numerator, denominator }: Rational): bigint {
  const quotient = numerator / denominator;
  return numerator < 0n && quotient * denominator !== numerator ? quotient - 1n : quotient;
}

function isCount({ numerator, denominator }: Rational): boolean {
  return denominator === 1n && numerator >= 0n && numerator <= MAX_FACTORIAL;
}

function product(from: bigint, to: bigint): bigint {
  let result = 1n;
  for (let factor = from; factor <= to; factor++) result *= factor;
  return result;
}
