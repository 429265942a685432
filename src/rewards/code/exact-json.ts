/**
 * JSON whose integers are exact.
 *
 * Numbers in JavaScript round integers beyond 2^53, and a rounded answer must not equal the right one. Here such integers are read
 * as `bigint` and written as digits; all else is as `JSON` has it.
 */

export type ExactValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly ExactValue[]
  | { readonly [key: string]: ExactValue };

/** Strings and whole numbers, so that no digit is looked at twice. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;
const MARK = "\u0000integer:";

/** Throws a `SyntaxError` where `JSON.parse` does. */
export function parseExact(text: string): ExactValue {
  const value: ExactValue = JSON.parse(text);
  if (!/\d{16}/.test(text)) return value;
  const marked = text.replace(STRING_OR_NUMBER, (found) =>
    LONG_INTEGER.test(found) ? JSON.stringify(`${MARK}${found}`) : found,
  );
  return JSON.parse(marked, (_, part: unknown) =>
    typeof part === "string" && part.startsWith(MARK) ? shrink(BigInt(part.slice(MARK.length))) : part,
  );
}

/** Numbers must be finite. */
export function stringifyExact(value: ExactValue): string {
  if (typeof value === "bigint") return String(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isList(value)) return `[${value.map(stringifyExact).join(",")}]`;
  const entries = Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}:${stringifyExact(part)}`);
  return `{${entries.join(",")}}`;
}

function shrink(integer: bigint): bigint | number {
  return Number.isSafeInteger(Number(integer)) ? Number(integer) : integer;
}

function isList(value: object): value is readonly ExactValue[] {
  return Array.isArray(value);
}
