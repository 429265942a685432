/** Numbers that are too large, too small or too costly for the usual way of comparing. */
import { describe, expect, test } from "vitest";
import { compareAnswers } from "./compare-answers.ts";

const OPTIONS = { roundedDigits: 5, percentIsFraction: false };

describe("what nobody can tell in reasonable time", () => {
  test.each([
    ["9^{9^{9^9}}", "9^{9^{9^8}}"],
    ["1", "1 - 10^{-40000}"],
    ["5", "999999! - 999998!"],
    ["5", "10^{10^{10}} - 10^{10^{10}} + 5"],
    ["5", "\\sum_{k=1}^{1000000} k"],
    ["5", "\\sum_{k=1}^{10^{6}} k"],
    ["5", "\\sum_{i=1}^{1000} \\sum_{j=1}^{1000} 1"],
    ["5", "\\sum_{k=-900000}^{3} k"],
    ["5", "\\prod_{k=1}^{20!} k"],
  ])("%s and %s stay undecided, at once", (truth, candidate) => {
    expect(compareAnswers(truth, candidate, OPTIONS)).toEqual({ kind: "open", pairs: [] });
  });

  test("an answer nested without end is compared as text", () => {
    const nested = "^{".repeat(900);
    expect(compareAnswers("5", nested, OPTIONS).kind).toBe("different");
    expect(compareAnswers(nested, nested, OPTIONS).kind).toBe("equal");
  });
});

describe("numbers beyond the range of doubles", () => {
  test.each([
    ["0", "10^{-400}"],
    ["0", "2^{-1000}"],
    ["1", "1 - 10^{-400}"],
    ["1", "1 + 10^{-20}"],
    ["10^{400}", "10^{401}"],
    ["\\infty", "10^{400}"],
    ["0", "\\sin(10^{-20})"],
  ])("%s and %s differ", (truth, candidate) => {
    expect(compareAnswers(truth, candidate, OPTIONS).kind).toBe("different");
  });

  test("10^{400} equals itself, written otherwise", () => {
    expect(compareAnswers("10^{400}", "100^{200}", OPTIONS).kind).toBe("equal");
    expect(compareAnswers("10^{-400}", "\\frac{1}{100^{200}}", OPTIONS).kind).toBe("equal");
  });
});
