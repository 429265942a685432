/** Exact fractions of whole numbers of any size. */

/** In lowest terms, the denominator above 0. */
export interface Rational {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** @param denominator not 0 */
export function rational(numerator: bigint, denominator = 1n): Rational {
  const divisor = greatestCommonDivisor(numerator, denominator);
  const sign = denominator < 0n ? -1n : 1n;
  return { numerator: (sign * numerator) / divisor, denominator: (sign * denominator) / divisor };
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

function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  let [a, b] = [left < 0n ? -left : left, right < 0n ? -right : right];
  while (b !== 0n) [a, b] = [b, a % b];
  return a === 0n ? 1n : a;
}
