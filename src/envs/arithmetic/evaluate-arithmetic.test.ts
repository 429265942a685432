import fc from "fast-check";
import { expect, test } from "vitest";
import { formatRational } from "../../numbers/rational.ts";
import { evaluateArithmetic } from "./evaluate-arithmetic.ts";

function resultOf(text: string): string {
  const result = evaluateArithmetic(text);
  return result.kind === "value" ? formatRational(result.value) : `error: ${result.error}`;
}

test.each([
  ["2 + 3 * 4", "14"],
  ["(2 + 3) * 4", "20"],
  ["10 - 4 - 3", "3"],
  ["24 / 4 / 3", "2"],
  ["2 ^ 3 ^ 2", "512"],
  ["-2 ^ 2", "-4"],
  ["2 ^ -2", "0.25"],
  ["2 * -3", "-6"],
  ["0.1 + 0.2", "0.3"],
  [".5 × 8 ÷ 2 − 1", "1"],
  ["1 / 3", "1/3 (about 0.333333333333)"],
  ["-2 / 3", "-2/3 (about -0.666666666667)"],
  ["1/3 * 3", "1"],
  ["99999999999999999999 * 99999999999999999999", "9999999999999999999800000000000000000001"],
])("%s is %s", (text, value) => {
  expect(resultOf(text)).toBe(value);
});

test.each([
  ["", "the expression ends too early"],
  ["1 +", "the expression ends too early"],
  ["(1", "a parenthesis is not closed"],
  ["1 2", 'unexpected "2"'],
  ["1)", 'unexpected ")"'],
  ["process.exit()", 'unexpected "process.exit()"'],
  ["1 = 1", 'unexpected "= 1"'],
  ["1/(2-2)", "division by zero"],
  ["0^-1", "division by zero"],
  ["2^0.5", "exponents must be whole numbers"],
  ["9^9^9", "the result is too large"],
  ["(".repeat(200), "the expression is nested too deeply"],
  ["-".repeat(200), "the expression is nested too deeply"],
  ["1".repeat(2000), "the expression is longer than 1000 characters"],
])("%s is refused: %s", (text, error) => {
  expect(evaluateArithmetic(text)).toEqual({ kind: "error", error });
});

test("the numbers come back as they were written", () => {
  expect(evaluateArithmetic("(25 + 07) * 1.50 - 25")).toMatchObject({ numbers: ["25", "07", "1.50", "25"] });
});

test("whole-number expressions agree with the machine's arithmetic", () => {
  const { expression } = fc.letrec<{ expression: string }>((tie) => ({
    expression: fc.oneof(
      { maxDepth: 4 },
      fc.integer({ min: 0, max: 20 }).map(String),
      fc
        .tuple(tie("expression"), fc.constantFrom("+", "-", "*"), tie("expression"))
        .map(([a, sign, b]) => `(${a} ${sign} ${b})`),
    ),
  }));
  fc.assert(
    fc.property(expression, (text) => {
      // The text is made of digits, signs and parentheses by the line above.
      expect(Number(resultOf(text))).toBe(Number(new Function(`return ${text} + 0`)()));
    }),
  );
});

test("any text gives a result", () => {
  fc.assert(fc.property(fc.string(), (text) => ["value", "error"].includes(evaluateArithmetic(text).kind)));
});
