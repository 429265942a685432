/** Answers whose arithmetic would take long are told, or left undecided, in little time on the caller's thread. */
import { expect, test } from "vitest";
import { evaluateArithmetic } from "../../src/envs/arithmetic/evaluate-arithmetic.ts";
import { compareAnswers } from "../../src/rewards/math/compare-answers.ts";
import { isUnfinished } from "../../src/rewards/math/unfinished.ts";
import { processorMsOf } from "./fuzz.ts";
import { hostileText } from "./hostile-texts.ts";

const OPTIONS = { roundedDigits: 5, percentIsFraction: false };
/** Processor time. Most take a millisecond; this is for slow machines. The costliest took a minute before. */
const MAX_MS = 1_000;

const ANSWERS = [
  ...["10^{10^{10}}+", "9^{9^{9}}*x+", "9^{9000}/7^{9000}+", "x+9^{900}/7^{900}*", "2^{9999}x-", "(x+1)^{999}*"],
  ...["999999!*", "1000!*", "x*1000!+", "999!/998!+", "\\binom{1000}{500}x+", "\\binom{999999}{500000}+"],
  ...["\\sqrt{9^{9000}}x+", "\\sqrt{7^{9001}}+", "1/7^{300}+", "x/97^{99}+", "x^{-99}+", "1e5000+", "1e-5000x+"],
  ...["0.\\overline{123456789}+x*", "1.23456789012345678901/9876543210987654321*", "x^{100}/7^{100}+", "(x/97)^{99}+"],
  ...["\\frac{1}{", "2^{", "\\sin ", "f(", "\\lfloor ", "\\pm 1", "x<", ",1", "1:", "\\{", "\\cup(1,2)", "\\log_{2}"],
];
const EXPRESSIONS = ["1/97^499+1/89^499+", "9^999/7^999+", "(9^900)/(7^900)-", "1.5^900*", "1/7^999+", "2^", "(", "-"];

function expectQuick(texts: readonly string[], work: (text: string) => unknown): void {
  const slow = texts.filter((text) => processorMsOf(() => work(text)) > MAX_MS);
  expect(slow).toEqual([]);
}

test("answers to compare", () => {
  const mixed = Array.from({ length: 30 }, (_, number) => hostileText(1_000 + number).text(1_900));
  const written = [600, 1_990].flatMap((length) =>
    ANSWERS.flatMap((unit) => ["1", "x"].map((last) => unit.repeat(Math.floor(length / unit.length)) + last)),
  );
  for (const truth of ["5", "x"]) {
    expectQuick([...mixed, ...written], (answer) => {
      compareAnswers(truth, answer, OPTIONS);
      isUnfinished(truth, answer);
    });
  }
});

test("expressions to calculate", () => {
  const written = EXPRESSIONS.flatMap((unit) =>
    ["", "1"].map((last) => unit.repeat(Math.floor(990 / unit.length)) + last),
  );
  expectQuick(written, evaluateArithmetic);
});
