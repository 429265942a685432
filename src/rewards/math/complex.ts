/**
 * Complex numbers in double precision that know how wrong they can be.
 *
 * `error` bounds the distance to the true value, to first order. NaN means that nothing is known: a division by zero, an
 * underflow, or a small term that vanished in a sum (2^100 + sqrt 2), which no comparison in doubles could see. A real part of
 * +-Infinity means a true value beyond the range of doubles.
 */
import type { Rational } from "../../numbers/rational.ts";
import { toNumber } from "../../numbers/rational.ts";

export interface Complex {
  readonly re: number;
  readonly im: number;
  readonly error: number;
}

export const UNKNOWN: Complex = { re: Number.NaN, im: Number.NaN, error: Number.NaN };
export const HUGE: Complex = { re: Number.POSITIVE_INFINITY, im: 0, error: 0 };

/** Relative. A smaller term keeps less than half of its digits beside a larger one. */
const VANISHING = 1e-9;
const EPSILON = 2 ** -52;

export function fromReal(re: number): Complex {
  return settle(re, 0, EPSILON * Math.abs(re));
}

export function fromRational(value: Rational): Complex {
  if (value.numerator === 0n) return { re: 0, im: 0, error: 0 };
  const nearest = toNumber(value);
  if (Number.isFinite(nearest)) return nonzero(fromReal(nearest));
  return value.numerator > 0n ? HUGE : negate(HUGE);
}

export function size({ re, im }: Complex): number {
  return Math.hypot(re, im);
}

export function isHuge({ re }: Complex): boolean {
  return re === Number.POSITIVE_INFINITY || re === Number.NEGATIVE_INFINITY;
}

export function add(a: Complex, b: Complex): Complex {
  if (isHuge(a) || isHuge(b)) return isHuge(a) && isHuge(b) ? (a.re === b.re ? a : UNKNOWN) : isHuge(a) ? a : b;
  const [small, large] = size(a) < size(b) ? [a, b] : [b, a];
  // What may as well be zero, such as sin(pi), does not vanish: it is rounding already.
  if (size(small) > 4 * small.error && size(small) < VANISHING * size(large)) return UNKNOWN;
  return settle(a.re + b.re, a.im + b.im, a.error + b.error + EPSILON * size(large));
}

export function negate({ re, im, error }: Complex): Complex {
  return { re: -re, im: -im, error };
}

export function multiply(a: Complex, b: Complex): Complex {
  if (isHuge(a) || isHuge(b)) return multiplyHuge(a, b);
  const magnitude = size(a) * size(b);
  const error = size(a) * b.error + size(b) * a.error + 2 * EPSILON * magnitude;
  const result = settle(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re, error);
  return size(a) === 0 || size(b) === 0 ? result : nonzero(result);
}

export function divide(a: Complex, b: Complex): Complex {
  const squared = b.re * b.re + b.im * b.im;
  if (isHuge(a) || isHuge(b) || !(size(b) > 4 * b.error) || squared === 0) return UNKNOWN;
  const error = b.error / squared + (2 * EPSILON) / size(b);
  return multiply(a, settle(b.re / squared, -b.im / squared, error));
}

export function exponential(a: Complex): Complex {
  if (a.re > 700) return a.im === 0 ? HUGE : UNKNOWN;
  const scale = Math.exp(a.re);
  return nonzero(
    settle(scale * Math.cos(a.im), scale * Math.sin(a.im), scale * (a.error + 2 * EPSILON * (1 + size(a)))),
  );
}

/** The principal logarithm. */
export function logarithm(a: Complex): Complex {
  if (isHuge(a) || !(size(a) > 4 * a.error)) return UNKNOWN;
  const result = settle(Math.log(size(a)), Math.atan2(a.im, a.re), a.error / size(a) + 4 * EPSILON);
  return { ...result, error: result.error + EPSILON * size(result) };
}

/** The principal power; the real root of a negative number where the exponent is a fraction with an odd denominator. */
export function power(base: Complex, exponent: Complex, exact: Rational | null): Complex {
  if (isHuge(base) || isHuge(exponent)) return powerOfHuge(base, exponent);
  if (size(base) === 0) return exponent.re > 0 && exponent.im === 0 ? base : UNKNOWN;
  if (isReal(base) && base.re < 0 && exact !== null && exact.denominator % 2n === 1n) {
    const magnitude = exponential(multiply(logarithm(negate(base)), exponent));
    return exact.numerator % 2n === 0n ? magnitude : negate(magnitude);
  }
  return exponential(multiply(logarithm(isReal(base) ? { ...base, im: 0 } : base), exponent));
}

/** Whether the imaginary part is nothing but rounding. */
export function isReal({ re, im, error }: Complex): boolean {
  return Math.abs(im) <= 4 * error + 1e-13 * Math.abs(re);
}

/** A result, unless it is out of range. */
export function settle(re: number, im: number, error: number): Complex {
  return Number.isFinite(re) && Number.isFinite(im) && Number.isFinite(error) ? { re, im, error } : UNKNOWN;
}

function nonzero(value: Complex): Complex {
  return size(value) < 1e-290 ? UNKNOWN : value;
}

function multiplyHuge(a: Complex, b: Complex): Complex {
  const [huge, other] = isHuge(a) ? [a, b] : [b, a];
  if (isHuge(other)) return huge.re === other.re ? HUGE : negate(HUGE);
  return other.im === 0 && Math.abs(other.re) >= 1 ? (other.re > 0 ? huge : negate(huge)) : UNKNOWN;
}

function powerOfHuge(base: Complex, exponent: Complex): Complex {
  const isBaseLarge = base.im === 0 && base.re >= 1.5;
  const isExponentLarge = exponent.im === 0 && exponent.re >= 1;
  return isBaseLarge && isExponentLarge ? HUGE : UNKNOWN;
}
