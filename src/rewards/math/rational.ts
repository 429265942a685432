/** Exact fractions of whole numbers of any size, in lowest terms with a positive denominator. */

export interface Rational {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Lowest terms; null where the denominator is zero. */
export function rational(numerator: bigint, denominator = 1n): Rational | null {
  if (denominator === 0n) return null;
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

export function addRational(a: Rational, b: Rational): Rational | null {
  return rational(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator);
}

export function multiplyRational(a: Rational, b: Rational): Rational | null {
  return rational(a.numerator * b.numerator, a.denominator * b.denominator);
}

/** Null for zero. */
export function invertRational({ numerator, denominator }: Rational): Rational | null {
  return rational(denominator, numerator);
}

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

function gcd(a: bigint, b: bigint): bigint {
  while (b !== 0n) [a, b] = [b, a % b];
  return a === 0n ? 1n : a;
}
