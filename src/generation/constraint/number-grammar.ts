/**
 * Numbers in JSON, as grammars: whole ones and decimal ones, between bounds.
 *
 * Numbers have at most 15 digits before the point, nine after it and no exponent, so no program reads them as infinity. A bound that
 * excludes itself, or that has more than nine decimals, is moved inwards by the smallest step that is written here.
 */

/** Bounds as JSON Schema states them. */
export interface NumberBounds {
  readonly minimum: number;
  readonly maximum: number;
  readonly exclusiveMinimum: number;
  readonly exclusiveMaximum: number;
}

const MAX_DIGITS = 15;
const LARGEST = 10n ** BigInt(MAX_DIGITS) - 1n;
const MAX_DECIMALS = 9;

/** Undefined where no whole number that is written here lies between the bounds. */
export function integerGrammar(bounds: NumberBounds): string | undefined {
  const low = clamp(Math.max(Math.ceil(bounds.minimum), Math.floor(bounds.exclusiveMinimum) + 1));
  const high = clamp(Math.min(Math.floor(bounds.maximum), Math.ceil(bounds.exclusiveMaximum) - 1));
  if (low > high || areOutOfReach(bounds)) return undefined;
  const parts = [
    ...(low < 0n ? [`"-" (${wholeRange(high < 0n ? -high : 1n, -low)})`] : []),
    ...(high >= 0n ? [wholeRange(low > 0n ? low : 0n, high)] : []),
  ];
  return parts.join(" | ");
}

/** Undefined where no number that is written here lies between the bounds. */
export function numberGrammar(bounds: NumberBounds): string | undefined {
  const decimals = Math.max(...Object.values(bounds).filter(Number.isFinite).map(numDecimals), 0);
  const excludes = Number.isFinite(bounds.exclusiveMinimum) || Number.isFinite(bounds.exclusiveMaximum);
  const d = Math.min(MAX_DECIMALS, decimals + (excludes ? 3 : 0));
  const low = bigMax(scaled(bounds.minimum, d, 0n, true), scaled(bounds.exclusiveMinimum, d, 1n, true));
  const high = bigMin(scaled(bounds.maximum, d, 0n, false), scaled(bounds.exclusiveMaximum, d, -1n, false));
  if (low > high || areOutOfReach(bounds)) return undefined;
  const parts = [
    ...(low < 0n ? [`"-" (${realRange(high < 0n ? -high : 0n, -low, d)})`] : []),
    ...(high >= 0n ? [realRange(low > 0n ? low : 0n, high, d)] : []),
  ];
  return parts.join(" | ");
}

/** Whether a bound leaves only numbers of more digits than are written. */
function areOutOfReach({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: NumberBounds): boolean {
  const most = Number(LARGEST);
  return minimum > most || exclusiveMinimum >= most || maximum < -most || exclusiveMaximum <= -most;
}

function clamp(value: number): bigint {
  if (value >= Number(LARGEST)) return LARGEST;
  return value <= -Number(LARGEST) ? -LARGEST : BigInt(value);
}

/** A bound in units of 10^-d, moved by `step` and, where it falls between two units, inwards. */
function scaled(bound: number, d: number, step: bigint, isLow: boolean): bigint {
  const most = LARGEST * 10n ** BigInt(d);
  if (bound >= Number(LARGEST)) return most;
  if (bound <= -Number(LARGEST)) return -most;
  const text = bound.toFixed(d);
  const units = BigInt(text.replace(".", ""));
  const isExact = Number(text) === bound;
  return units + step + (isExact ? 0n : isLow ? 1n : -1n);
}

function numDecimals(value: number): number {
  for (let d = 0; d < MAX_DECIMALS; d++) if (Number(value.toFixed(d)) === value) return d;
  return MAX_DECIMALS;
}

/** Decimal numbers from low to high, in units of 10^-d, neither negative. */
function realRange(low: bigint, high: bigint, d: number): string {
  const unit = 10n ** BigInt(d);
  const [lowWhole, lowPart, highWhole, highPart] = [low / unit, low % unit, high / unit, high % unit];
  const any = `("." [0-9]{1,${MAX_DECIMALS}})?`;
  if (lowWhole === highWhole) return `"${lowWhole}" ${decimalPart(lowPart, highPart, d)}`;
  const parts = [`"${lowWhole}" ${lowPart === 0n ? any : decimalPart(lowPart, unit, d)}`];
  // The largest number is no bound that anyone has set: decimals may follow it.
  if (highWhole === LARGEST) return [...parts, `(${wholeRange(lowWhole + 1n, highWhole)}) ${any}`].join(" | ");
  if (highWhole - lowWhole > 1n) parts.push(`(${wholeRange(lowWhole + 1n, highWhole - 1n)}) ${any}`);
  parts.push(`"${highWhole}" ${decimalPart(0n, highPart, d)}`);
  return parts.join(" | ");
}

/** Decimals from low to high, in units of 10^-d; high may be a whole one, which is not reached. */
function decimalPart(low: bigint, high: bigint, d: number): string {
  const parts: string[] = [];
  // Below the last step more digits may follow: they do not reach it.
  if (high > low) parts.push(`"." (${digitRange(padded(low, d), padded(high - 1n, d))}) [0-9]{0,${MAX_DECIMALS - d}}`);
  if (high < 10n ** BigInt(d) && high > 0n) parts.push(`"." "${padded(high, d)}"`);
  if (low === 0n) parts.push('""');
  return parts.length === 0 ? '""' : `(${parts.join(" | ")})`;
}

/** Whole numbers from low to high, neither negative, without leading zeros. */
function wholeRange(low: bigint, high: bigint): string {
  const parts = low === 0n ? ['"0"'] : [];
  // Lengths of which all numbers are in the range are one part: a grammar with a part for each has that many ways to follow at every digit.
  const whole: number[] = [];
  for (let length = String(bigMax(low, 1n)).length; length <= String(high).length; length++) {
    const [first, last] = [10n ** BigInt(length - 1), 10n ** BigInt(length) - 1n];
    if (low <= first && high >= last) whole.push(length - 1);
    else if (high >= first) parts.push(digitRange(String(bigMax(low, first)), String(bigMin(high, last))));
  }
  const [fewest, most] = [whole[0], whole.at(-1)];
  if (fewest !== undefined) parts.push(`[1-9]${fewest === most ? anyDigits(fewest) : ` [0-9]{${fewest},${most}}`}`);
  return parts.join(" | ");
}

/** Digits between two texts of the same length. */
function digitRange(low: string, high: string): string {
  if (low === "") return '""';
  const [lowFirst, lowRest, highFirst, highRest] = [low[0] ?? "", low.slice(1), high[0] ?? "", high.slice(1)];
  const isFull = /^0*$/.test(lowRest) && /^9*$/.test(highRest);
  if (isFull) return `${digits(lowFirst, highFirst)}${anyDigits(lowRest.length)}`;
  if (lowFirst === highFirst) return `"${lowFirst}" (${digitRange(lowRest, highRest)})`;
  const parts = [`"${lowFirst}" (${digitRange(lowRest, "9".repeat(lowRest.length))})`];
  const [from, to] = [Number(lowFirst) + 1, Number(highFirst) - 1];
  if (from <= to) parts.push(`${digits(String(from), String(to))}${anyDigits(lowRest.length)}`);
  parts.push(`"${highFirst}" (${digitRange("0".repeat(highRest.length), highRest)})`);
  return parts.join(" | ");
}

function digits(first: string, last: string): string {
  return first === last ? `"${first}"` : `[${first}-${last}]`;
}

function anyDigits(count: number): string {
  return count === 0 ? "" : ` [0-9]{${count}}`;
}

function padded(value: bigint, length: number): string {
  return length === 0 ? "" : String(value).padStart(length, "0");
}

function bigMax(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}

function bigMin(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}
