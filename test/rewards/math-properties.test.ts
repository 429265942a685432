/** What holds for any answers: an answer equals itself, order of the two does not matter, formatting does not, numbers do. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { compareAnswers } from "../../src/rewards/math/compare-answers.ts";
import { extractAnswer } from "../../src/rewards/math/extract-answer.ts";
import { answerText } from "../../src/rewards/math/parse-answer.ts";

const OPTIONS = { roundedDigits: 5, percentIsFraction: false };
const compare = (truth: string, candidate: string) => compareAnswers(truth, candidate, OPTIONS).kind;

const { expression } = fc.letrec<{ expression: string; leaf: string }>((tie) => ({
  leaf: fc.oneof(
    fc.integer({ min: 0, max: 999 }).map(String),
    fc.constantFrom("x", "y", "\\pi", "n", "\\sqrt{2}", "0.25", "\\theta"),
  ),
  expression: fc.oneof(
    { maxDepth: 3 },
    tie("leaf"),
    fc.tuple(tie("expression"), tie("expression")).map(([a, b]) => `\\frac{${a}}{${b}}`),
    fc.tuple(tie("expression"), tie("expression")).map(([a, b]) => `${a} + ${b}`),
    fc.tuple(tie("expression"), tie("expression")).map(([a, b]) => `\\left(${a}\\right)\\left(${b}\\right)`),
    fc.tuple(tie("expression"), fc.integer({ min: 1, max: 4 })).map(([a, b]) => `(${a})^{${b}}`),
    tie("expression").map((a) => `\\sqrt{${a}}`),
    tie("expression").map((a) => `-(${a})`),
  ),
}));

const answer = fc.oneof(
  expression,
  fc.array(expression, { minLength: 2, maxLength: 4 }).map((items) => items.join(", ")),
  fc.array(expression, { minLength: 2, maxLength: 4 }).map((items) => `\\{${items.join(", ")}\\}`),
  fc
    .tuple(fc.constantFrom("(", "["), expression, expression, fc.constantFrom(")", "]"))
    .map(([a, b, c, d]) => `${a}${b}, ${c}${d}`),
  fc.tuple(expression, fc.constantFrom("=", "<", "\\geq"), expression).map((parts) => parts.join(" ")),
);

test("an answer equals itself", () => {
  fc.assert(fc.property(answer, (text) => compare(text, text) === "equal"));
});

test("whatever is written, comparing ends, does not throw, and finds it equal to itself", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 60 }), fc.string({ maxLength: 60 }), (a, b) => {
      compare(a, b);
      // What has no token, such as spaces, is no answer.
      return compare(a, a) === (answerText(a) === "" ? "different" : "equal");
    }),
    { numRuns: 2_000 },
  );
});

test("LaTeX in any order is read without throwing", () => {
  const piece = fc.constantFrom(
    "\\frac",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\\{",
    "\\}",
    "^",
    "_",
    "\\sqrt",
    "1",
    "2.5",
    "x",
    ",",
    "=",
    "<",
    "\\cup",
    "|",
    "\\pm",
    "\\text{a b}",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "&",
    "\\\\",
    "%",
    "!",
    "\\sin",
    "-",
    "+",
    "/",
    "\\left",
    "\\infty",
    "\\overline",
    "°",
    ":",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), fc.array(piece, { maxLength: 25 }), (a, b) => {
      expect(["equal", "different", "open"]).toContain(compare(a.join(" "), b.join(" ")));
    }),
    { numRuns: 2_000 },
  );
});

test("which of the two is the truth does not matter", () => {
  fc.assert(
    fc.property(answer, answer, (a, b) => compare(a, b) === compare(b, a)),
    { numRuns: 500 },
  );
});

test("formatting does not matter", () => {
  const restyle = (text: string) =>
    `$ ${text
      .replaceAll("\\frac", "\\dfrac")
      .replaceAll("+", "\\, + \\;")
      .replaceAll("\\left(", "(")
      .replaceAll("\\right)", ")")
      .replaceAll("\\sqrt{2}", "\\sqrt2")} $.`;
  fc.assert(fc.property(answer, (text) => compare(text, restyle(text)) === "equal"));
});

test("the order of sums, products and solutions does not matter", () => {
  fc.assert(
    fc.property(expression, expression, (a, b) => {
      expect(compare(`(${a}) + (${b})`, `(${b}) + (${a})`)).not.toBe("different");
      expect(compare(`(${a})(${b})`, `(${b})(${a})`)).not.toBe("different");
      expect(compare(`${a}, ${b}`, `${b}, ${a}`)).not.toBe("different");
    }),
  );
});

test("different whole numbers are never equal, however they are written", () => {
  const written = (value: bigint) =>
    fc.constantFrom(
      `${value}`,
      `\\text{${value}}`,
      `$${value}$`,
      `x = ${value}`,
      `${value}.0`,
      `\\frac{${value * 3n}}{3}`,
      `${value}^\\circ`,
      `(${value})`,
      value.toLocaleString("en-US"),
    );
  const pair = fc
    .oneof(fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }), fc.bigInt({ min: -20n, max: 20n }))
    .chain((a) =>
      fc
        .oneof(
          fc.bigInt({ min: a - 5n, max: a + 5n }),
          fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }),
          fc.constant(-a),
        )
        .filter((b) => a !== b)
        .chain((b) => fc.tuple(written(a), written(b))),
    );
  fc.assert(
    fc.property(pair, ([a, b]) => {
      expect(compare(a, b)).toBe("different");
    }),
    { numRuns: 2_000 },
  );
});

test("a number equals itself, however it is written", () => {
  const value = fc.integer({ min: -999_999_999, max: 999_999_999 });
  fc.assert(
    fc.property(value, (number) => {
      for (const text of [
        `${number}.00`,
        number.toLocaleString("en-US"),
        `\\frac{${number * 7}}{7}`,
        `\\$${number}`,
        `x = ${number}`,
        `${number}\\text{ units}`,
      ]) {
        expect([text, compare(`${number}`, text)]).toEqual([text, "equal"]);
      }
    }),
  );
});

test("different fractions are never equal", () => {
  const part = fc.integer({ min: 1, max: 10_000 });
  fc.assert(
    fc.property(part, part, part, part, (a, b, c, d) => {
      const isEqual = BigInt(a) * BigInt(d) === BigInt(b) * BigInt(c);
      expect(compare(`\\frac{${a}}{${b}}`, `${c}/${d}`)).toBe(isEqual ? "equal" : "different");
    }),
    { numRuns: 1_000 },
  );
});

test("polynomials are equal exactly when their coefficients are", () => {
  const coefficients = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 3, maxLength: 3 });
  const write = (list: readonly number[]) => list.map((coefficient, i) => `(${coefficient})x^${i}`).join(" + ");
  fc.assert(
    fc.property(coefficients, coefficients, (a, b) => {
      const isEqual = a.every((coefficient, i) => coefficient === b[i]);
      expect(compare(write(a), write([...b]))).toBe(isEqual ? "equal" : "different");
      expect(compare(write(a), write(a).replaceAll("x", "(x)"))).toBe("equal");
    }),
    { numRuns: 500 },
  );
});

test("a boxed answer comes out of any text as it went in", () => {
  fc.assert(
    fc.property(answer, fc.lorem(), (text, prose) => {
      expect(extractAnswer(`${prose} \\boxed{1} ${prose} $\\boxed{${text}}$. ${prose}`)?.text).toBe(text.trim());
    }),
  );
});
