/** Exact fractions of whole numbers of any size: what calculators compute with and answers are compared as. */
import { invariant } from "../errors/reroll-error.ts";

/** In lowest terms, the denominator above 0. */
export interface Rational {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** The fraction in lowest terms. The denominator must not be 0. */
export function rational(numerator: bigint, denominator = 1n): Rational {
  invariant(denominator !== 0n, "a fraction has a denominator of 0");
  if (denominator === 1n) return { numerator, denominator };
  const divisor = gcd(numerator < 0n ? -numerator : numerator, denominator < 0n ? -denominator : denominator);
  const sign = denominator < 0n ? -1n : 1n;
  return { numerator: (sign * numerator) / divisor, denominator: (sign * denominator) / divisor };
}

/** Reads `12`, `0.25`, `1.5e-3` and `0.1(36)` (a repeating decimal); null for anything else and for absurd exponents. */
export function readRational(text: string): Rational | null {
  const [, whole, fraction = "", repeated = "", exponent = "0"] =
    /^(\d+)(?:\.(\d*)(?:\((\d+)\))?)?(?:e([+-]?\d+))?$/.exec(text) ?? [];
  if (whole === undefined || Math.abs(Number(exponent)) > 5000) return null;
  const shift = 10n ** BigInt(fraction.length);
  const period = repeated === "" ? 1n : 10n ** BigInt(repeated.length) - 1n;
  const numerator = BigInt(whole + fraction) * period + BigInt(repeated || 0);
  const scale = 10n ** BigInt(Math.abs(Number(exponent)));
  return Number(exponent) < 0
    ? rational(numerator, shift * period * scale)
    : rational(numerator * scale, shift * period);
}

/** The sum. */
export function addRational(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

/** The product. */
export function multiplyRational(a: Rational, b: Rational): Rational {
  return rational(a.numerator * b.numerator, a.denominator * b.denominator);
}

/** One divided by the fraction; null for zero. */
export function invertRational({ numerator, denominator }: Rational): Rational | null {
  return numerator === 0n ? null : rational(denominator, numerator);
}

/** Whether both are the same number. */
export function isSameRational(a: Rational, b: Rational): boolean {
  return a.numerator === b.numerator && a.denominator === b.denominator;
}

/** The nearest double, also where numerator and denominator are beyond the range of doubles. */
export function toNumber({ numerator, denominator }: Rational): number {
  const excess = Math.max(0, Math.max(bitLength(numerator), bitLength(denominator)) - 1000);
  if (excess === 0) return Number(numerator) / Number(denominator);
  // Keeps 64 significant bits of each and puts the lost powers of two back.
  const top = Math.max(0, bitLength(numerator) - 64);
  const bottom = Math.max(0, bitLength(denominator) - 64);
  return (Number(numerator >> BigInt(top)) / Number(denominator >> BigInt(bottom))) * 2 ** (top - bottom);
}

/** Bits of the magnitude, to four: enough to bound the cost of an operation. */
export function bitLength(value: bigint): number {
  return (value < 0n ? -value : value).toString(16).length * 4;
}

/** A whole number as it is, a decimal that ends in full, and other fractions as `1/3 (about 0.333333333333)`. */
export function formatRational({ numerator, denominator }: Rational): string {
  if (denominator === 1n) return String(numerator);
  const numDecimals = decimalsOf(denominator);
  if (numDecimals !== undefined) return toDecimal(numerator, denominator, numDecimals);
  return `${numerator}/${denominator} (about ${toDecimal(numerator, denominator, ABOUT_DECIMALS)})`;
}

const MAX_DECIMALS = 30;
const ABOUT_DECIMALS = 12;

/** How many decimals the fraction needs; undefined where it needs too many or never ends. */
function decimalsOf(denominator: bigint): number | undefined {
  for (let count = 1, power = 10n; count <= MAX_DECIMALS; count++, power *= 10n) {
    if (power % denominator === 0n) return count;
  }
  return undefined;
}

/** Rounded half away from zero. */
function toDecimal(numerator: bigint, denominator: bigint, numDecimals: number): string {
  const scale = 10n ** BigInt(numDecimals);
  const size = numerator < 0n ? -numerator : numerator;
  const digits = String((2n * size * scale + denominator) / (2n * denominator)).padStart(numDecimals + 1, "0");
  return `${numerator < 0n ? "-" : ""}${digits.slice(0, -numDecimals)}.${digits.slice(-numDecimals)}`;
}

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a === 0n ? 1n : a;
}
