/**
 * Whether what came out is what was expected.
 *
 * Texts: equal but for white space at the ends of lines and of the text, or equal word by word, where words that are numbers
 * with a fraction may differ by the tolerance. Values: equal as JSON, numbers likewise, integers of any size digit by digit; true is
 * 1, as Python has it.
 */
import type { ExactValue } from "./exact-json.ts";

/** `tolerance` is relative for numbers above 1 and absolute below. */
export function isSameText(got: string, expected: string, tolerance: number): boolean {
  const [gotLines, expectedLines] = [linesOf(got), linesOf(expected)];
  return (
    gotLines.length === expectedLines.length &&
    gotLines.every((line, index) => isSameLine(line, expectedLines[index] ?? "", tolerance))
  );
}

export function isSameValue(got: ExactValue, expected: ExactValue, tolerance: number): boolean {
  if (isNumeric(got) && isNumeric(expected)) {
    if ([got, expected].every(isInteger)) return BigInt(got) === BigInt(expected);
    return isClose(Number(got), Number(expected), tolerance);
  }
  if (got === null || expected === null || typeof got !== "object" || typeof expected !== "object") {
    return got === expected;
  }
  if (Array.isArray(got) !== Array.isArray(expected)) return false;
  const [left, right] = [Object.entries(got), new Map<string, ExactValue>(Object.entries(expected))];
  return (
    left.length === right.size &&
    left.every(([key, value]) => {
      const other = right.get(key);
      return other !== undefined && isSameValue(value, other, tolerance);
    })
  );
}

function linesOf(text: string): string[] {
  return text
    .trimEnd()
    .replace(/^\s*\n/, "")
    .split("\n");
}

function isSameLine(got: string, expected: string, tolerance: number): boolean {
  const [gotWords, expectedWords] = [wordsOf(got), wordsOf(expected)];
  return (
    gotWords.length === expectedWords.length &&
    gotWords.every((word, index) => isSameWord(word, expectedWords[index] ?? "", tolerance))
  );
}

function wordsOf(line: string): string[] {
  return line.split(/\s+/).filter((word) => word !== "");
}

function isSameWord(got: string, expected: string, tolerance: number): boolean {
  if (got === expected) return true;
  const hasFraction = [got, expected].some((word) => /[.e]/i.test(word));
  return hasFraction && [got, expected].every(isNumber) && isClose(Number(got), Number(expected), tolerance);
}

function isNumber(word: string): boolean {
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(word);
}

function isNumeric(value: ExactValue): value is number | bigint | boolean {
  return typeof value === "number" || typeof value === "bigint" || typeof value === "boolean";
}

function isInteger(value: number | bigint | boolean): boolean {
  return typeof value !== "number" || Number.isInteger(value);
}

function isClose(left: number, right: number, tolerance: number): boolean {
  return Math.abs(left - right) <= tolerance * Math.max(1, Math.abs(right));
}
