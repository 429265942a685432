import { describe, expect, test } from "vitest";
import { compareAnswers } from "./compare-answers.ts";

const OPTIONS = { roundedDigits: 5, percentIsFraction: false };

type Pair = readonly [truth: string, candidate: string];

function kinds(equal: readonly Pair[], different: readonly Pair[]): void {
  test.each(equal)("%s equals %s", (truth, candidate) => {
    expect(compareAnswers(truth, candidate, OPTIONS).kind).toBe("equal");
  });
  test.each(different)("%s differs from %s", (truth, candidate) => {
    expect(compareAnswers(truth, candidate, OPTIONS).kind).toBe("different");
  });
}

describe("formatting", () => {
  kinds(
    [
      ["\\dfrac{3}{4}", "\\frac{3}{4}"],
      ["\\frac43", "\\frac{4}{3}"],
      ["\\frac 9{19}", "\\frac{9}{19}"],
      ["\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"],
      ["10,\\!080", "10080"],
      ["11,\\! 111,\\! 111,\\! 100", "11111111100"],
      ["\\$23{,}000", "23,000"],
      ["1,234,567", "1234567"],
      ["$x^2$", "x^{2}"],
      ["\\(5\\)", "5."],
      ["5 \\;", "\\,5"],
      ["\\sqrt2", "\\sqrt{2}"],
      ["\\text{even}", "even"],
      ["\\mathrm{Evelyn}", "evelyn."],
      ["2 \\cdot x", "2x"],
      ["\\left[0, 1\\right)", "[0,1)"],
      ["√2", "\\sqrt{2}"],
      ["2π", "2\\pi"],
      ["x²", "x^2"],
      ["x**2", "x^2"],
    ],
    [
      ["\\mathbb{N}", "N"],
      ["x", "X"],
      ["x_1", "x_2"],
      ["", "5"],
      ["", ""],
      ["1,234", "1.234"],
      ["(20,100)", "20100"],
    ],
  );
});

describe("numbers", () => {
  kinds(
    [
      ["0.5", "\\frac{1}{2}"],
      ["0.50", "0.5"],
      [".5", "1/2"],
      ["1\\frac{4}{5}", "9/5"],
      ["-15\\frac{3}{5}", "-15.6"],
      ["2 1/2", "2.5"],
      ["1.5 \\times 10^{-3}", "0.0015"],
      ["1.5e-3", "0.0015"],
      ["3E5", "300000"],
      ["2^{10}", "1024"],
      ["0.\\overline{3}", "\\frac13"],
      ["0.1\\overline{6}", "1/6"],
      ["\\frac{-2}{4}", "-\\frac{1}{2}"],
      ["\\sqrt{16}", "4"],
      ["5!", "120"],
      ["\\binom{5}{2}", "10"],
      ["\\pi", "3.14159"],
      ["6366.2", "\\frac{20000}{\\pi}"],
      ["\\mbox{four}", "4"],
      ["3 million", "3000000"],
      ["1999^{1999}", "1999 \\cdot 1999^{1998}"],
      ["2^{-3}", "0.125"],
    ],
    [
      ["1", "2"],
      ["100000", "100000.4"],
      ["0.25", "0.254"],
      ["\\pi", "3.14"],
      ["\\frac13", "0.333"],
      ["\\frac13", "0.33334"],
      ["12345.6", "12345.7"],
      ["10^{20}", "10^{20}+1"],
      ["2^{100}", "2^{100}-2"],
      ["9007199254740993", "9007199254740992"],
      ["-5", "5"],
      ["1\\frac{1}{2}", "\\frac{1}{2}"],
      ["52_8", "52"],
      ["52_8", "42"],
      ["9^{9^{9^9}}", "5"],
      ["2^{2008}-2", "-1+i"],
      ["10^{-20}", "0"],
      ["5", "five hundred"],
    ],
  );
});

describe("percentages, units and currencies", () => {
  kinds(
    [
      ["17\\%", "17"],
      ["17\\%", "17%"],
      ["17\\%", "0.17"],
      ["50", "50\\%"],
      ["50 percent", "50\\%"],
      ["90^\\circ", "90"],
      ["90^{\\circ}", "90°"],
      ["18 \\text{ degrees}", "18^\\circ"],
      ["\\$18.90", "18.90"],
      ["-\\$5", "-5"],
      ["5.4 \\text{ cents}", "5.4"],
      ["\\$1.50", "150 \\text{ cents}"],
      ["15\\mbox{ cm}^2", "15 \\text{ square centimeters}"],
      ["864 \\mbox{ inches}^2", "864"],
      ["2\\text{ m}", "200 cm"],
      ["1.5 hours", "90 minutes"],
      ["240\\text{ ways.}", "240"],
      ["75^\\circ, 75^\\circ", "75, 75"],
    ],
    [
      ["0.5", "50\\%"],
      ["50\\%", "5"],
      ["50\\%", "0.05"],
      ["5 \\text{ cm}", "5 \\text{ m}"],
      ["5 \\text{ cm}", "5 \\text{ cm}^2"],
      ["5 \\text{ dollars}", "5 \\text{ euros}"],
      ["90^\\circ", "91"],
      ["\\$5", "€5"],
      ["3 \\text{ hours}", "3 \\text{ days}"],
      ["2:30 \\text{ p.m.}", "2:30 \\text{ a.m.}"],
      ["10", "10 million"],
      ["5 feet", "5 inches"],
      ["5 kg", "5 pounds"],
      ["30^\\circ", "30 \\text{ radians}"],
      ["5 gallons", "6"],
    ],
  );

  test("50% is 0.5 for a truth without a sign only where the option says so", () => {
    expect(compareAnswers("0.5", "50\\%", { ...OPTIONS, percentIsFraction: true }).kind).toBe("equal");
    expect(compareAnswers("0.5", "5\\%", { ...OPTIONS, percentIsFraction: true }).kind).toBe("different");
  });
});

describe("expressions", () => {
  kinds(
    [
      ["(x+1)^2", "x^2+2x+1"],
      ["p - q", "-q+p"],
      ["(t-7)(t+7)", "t^2-49"],
      ["\\sqrt8", "2\\sqrt{2}"],
      ["\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}"],
      ["\\sqrt{5+2\\sqrt{6}}", "\\sqrt2+\\sqrt3"],
      ["\\cos\\frac{2\\pi}{7}+\\cos\\frac{4\\pi}{7}+\\cos\\frac{6\\pi}{7}", "-\\frac12"],
      ["\\sin 30^\\circ", "\\frac12"],
      ["\\cot x", "\\frac{\\cos x}{\\sin x}"],
      ["\\sin^2 t", "1-\\cos^2 t"],
      ["6 - 5i", "-5i+6"],
      ["(1+i)^2", "2i"],
      ["e^{i\\pi}", "-1"],
      ["\\sqrt[4]{e^5}", "e^{5/4}"],
      ["\\ln 6", "\\ln 2 + \\ln 3"],
      ["\\log_2 8", "3"],
      ["\\log 6", "\\log 2 + \\log 3"],
      ["10x\\sqrt{21x}", "10\\sqrt{21x^3}"],
      ["\\sqrt[3]{x}", "x^{1/3}"],
      ["(n+1)!", "(n+1) n!"],
      ["2^{n+1}", "2 \\cdot 2^n"],
      ["n(n+1)2^{n-3}", "\\frac{2^n n(n+1)}{8}"],
      ["|x|", "\\sqrt{x^2}"],
      ["2f(0)", "f(0)+f(0)"],
      ["\\dfrac{2A}{B^2}", "2 A B^{-2}"],
      ["\\frac{A + B}{2}", "\\frac12 (B + A)"],
      ["3R^2", "R \\cdot 3R"],
      ["\\tan^{-1} x", "\\arctan x"],
      ["\\frac{\\pi r}{h+r}", "pi r/(r+h)"],
    ],
    [
      ["x", "y"],
      ["x^2", "x^3"],
      ["2f(0)", "0"],
      ["\\ln|x|", "\\ln x"],
      ["x", "\\sqrt{x^2}"],
      ["\\lfloor x \\rfloor", "x"],
      ["x + 10^{-12}", "x"],
      ["\\sqrt{2}", "\\sqrt{3}"],
      ["(-1)^n", "1"],
      ["\\log 100", "2"],
      ["\\log 2", "\\ln 2"],
      ["6-5i", "6+5i"],
      ["a b", "a + b"],
      ["e^{x}", "x^{e}"],
      ["\\frac{1}{x+y}", "\\frac{1}{x}+\\frac{1}{y}"],
      ["\\sin 2x", "2 \\sin x"],
      ["C_1 x", "C_2 x"],
      ["n!", "n^2"],
    ],
  );
});

describe("lists and sets of solutions", () => {
  kinds(
    [
      ["1,-2", "-2, 1"],
      ["3, 5, 7", "7,5,3"],
      ["1 \\pm \\sqrt{19}", "1-\\sqrt{19}, 1+\\sqrt{19}"],
      ["\\{1\\pm\\sqrt{5},-2\\}", "-2, 1+\\sqrt5, 1-\\sqrt5"],
      ["x=1 \\text{ or } x=2", "2, 1"],
      ["x = 1 and x = 2", "x = 2, x = 1"],
      ["x = 1, 2", "1,2"],
      ["\\pm 3", "3, -3"],
      ["x = \\pm 3", "-3, 3"],
      ["\\{1, 23\\}", "\\left\\{23, 1\\right\\}"],
      ["\\{5\\}", "5"],
      ["\\emptyset", "\\{\\}"],
      ["\\frac12, \\frac14", "0.25, 0.5"],
      ["\\text{A, D}", "A, D"],
      ["(-4, 27);(2, 15)", "(2,15), (-4,27)"],
      ["x \\in \\{1, 2\\}", "\\{2,1\\}"],
    ],
    [
      ["1, 2", "1"],
      ["1", "1, 2"],
      ["1, 2", "1, 3"],
      ["1,2", "(1,2)"],
      ["\\{1,2\\}", "(1,2)"],
      ["1, 1, 2", "1, 2, 2"],
      ["E, D, A", "A, D, E"],
      ["\\text{Ann, then Bob}", "\\text{Bob, then Ann}"],
      ["\\pm 3", "3"],
      ["x = 1, y = 2", "x = 2, y = 1"],
      ["x = 1, y = 2", "1, 2"],
      ["\\emptyset", "0"],
      ["\\emptyset", "\\{0\\}"],
      ["1 \\pm \\sqrt{2}", "1 \\pm \\sqrt{3}"],
      ["5", "5 or 6"],
    ],
  );
});

describe("points, intervals and ratios", () => {
  kinds(
    [
      ["(3, \\frac{\\pi}{2})", "(3, \\pi/2)"],
      ["(2,\\infty)", "x > 2"],
      ["(2,\\infty)", "2 < x"],
      ["[-2,7]", "x \\in [-2,7]"],
      ["[-2,7]", "-2 \\le x \\le 7"],
      ["(3,4]", "3 < x \\leq 4"],
      ["(-\\infty, 2) \\cup (3, \\infty)", "(3,\\infty)\\cup(-\\infty,2)"],
      ["(-\\infty, 2) \\cup (3, \\infty)", "x < 2 \\text{ or } x > 3"],
      ["k \\neq 1", "(-\\infty,1)\\cup(1,\\infty)"],
      ["\\mathbb{R}", "(-\\infty,\\infty)"],
      ["\\text{all real numbers}", "\\mathbb{R}"],
      ["(a, b) = (2, 13)", "(2,13)"],
      ["3:1", "3 : 1"],
      ["\\langle 1, 2, 3 \\rangle", "(1,2,3)"],
      ["[0, 1, m]", "(0,1,m)"],
      ["\\left(\\frac{3}{5},\\frac{8}{3}\\right]", "(0.6, 8/3]"],
    ],
    [
      ["(3,4]", "(3,4)"],
      ["[3,4]", "(3,4]"],
      ["(3,4)", "(4,3)"],
      ["(2,\\infty)", "x \\geq 2"],
      ["(2,\\infty)", "x < 2"],
      ["(2,\\infty)", "(-\\infty, 2)"],
      ["(1,2)", "(1,2,3)"],
      ["(1,2)", "1.2"],
      ["3:1", "1:3"],
      ["3:1", "(3,1)"],
      ["(0,1) \\cup (2,3)", "(0,1)"],
      ["(0,1) \\cup (2,3)", "(0,1) \\cup [2,3)"],
      ["3 < x \\leq 4", "[3,4)"],
      ["\\mathbb{R}", "\\mathbb{Q}"],
      ["(1,2,3)", "[1,2,3)"],
      ["(\\infty, 2)", "(-\\infty, 2)"],
    ],
  );
});

describe("equations and inequalities", () => {
  kinds(
    [
      ["x=5", "5"],
      ["5", "x = 5"],
      ["y = 2x + 3", "2x + 3"],
      ["y = 2x + 3", "2x - y + 3 = 0"],
      ["5x - 7y + 11z + 4 = 0", "-10x + 14y - 22z - 8 = 0"],
      ["x^2 + y^2 = 1", "1 = y^2 + x^2"],
      ["f(x) = x^2", "x^2"],
      ["f(z) = c", "f(z)=c"],
      ["x^2 > 4", "4 < x^2"],
      ["a < 0", "0 > a"],
      ["n \\geq 2", "2 \\le n"],
      ["p + q \\geq 4", "4 - p - q \\leq 0"],
      ["\\lambda \\neq 1", "1 \\neq \\lambda"],
      ["a = b = c = 0", "a=b=c=0"],
      ["E = m c^2", "E = c^2 m"],
      ["AB = BA", "AB = BA"],
    ],
    [
      ["x = 5", "y = 5"],
      ["x = 5", "x = 6"],
      ["y = 2x + 3", "y = 2x - 3"],
      ["x^2 = 0", "x = 0"],
      ["x > 2", "x \\geq 2"],
      ["x > 2", "x < 2"],
      ["x > 2", "y > 2"],
      ["x^2 > 4", "x^2 < 4"],
      ["2x + y = 1", "2x + y = 2"],
      ["5", "2x = 10"],
      ["f(x) = x^2", "f(x) = x^3"],
      ["y = x", "y \\neq x"],
      ["x = 2", "x \\neq 2"],
      ["f(x) = x", "g(x) = x"],
      ["x^2 + y^2 = 1", "x^2 - y^2 = 1"],
      ["0.56 = 56\\%", "0.66 = 56\\%"],
      ["f(x) = x^2", "f(w) = x^2"],
      ["f(0) = 0", "f(1) = 0"],
      ["f(0) = 0", "0"],
    ],
  );
});

describe("matrices", () => {
  const matrix = (body: string) => `\\begin{pmatrix} ${body} \\end{pmatrix}`;
  kinds(
    [
      [matrix("1 & 2 \\\\ 3 & 4"), "\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}"],
      [matrix("1 & 2 \\\\ 3 & 4"), matrix("1 & 2 \\\\ 3 & 4 \\\\")],
      [matrix("-1/3 \\\\ 2/3 \\\\ 5/3"), matrix("-\\frac13 \\\\ \\frac23 \\\\ \\frac53")],
      [matrix("-1/3 \\\\ 2/3"), "(-\\frac13, \\frac23)"],
      ["(1,2)", matrix("1 \\\\ 2")],
      [matrix("1 & -1 \\\\ 1 & \\phantom -1"), matrix("1 & -1 \\\\ 1 & 1")],
      [matrix("\\cos t & 0 \\\\ 0 & 1"), matrix("\\sin(t + \\pi/2) & 0 \\\\ 0 & 1")],
      [matrix("\\sqrt{4}"), matrix("2")],
      [matrix("a & b"), matrix("a & b")],
      [matrix("A & B"), matrix("A & B")],
      [matrix("x+x"), matrix("2x")],
      [
        "\\left( \\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array} \\right)",
        "\\left( \\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array} \\right)",
      ],
      ["\\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array}", matrix("1 & 2 \\\\ 3 & 4")],
      [matrix("0.5 & 0"), matrix("\\frac12 & 0")],
      [matrix("1 & 2"), "\\langle 1, 2 \\rangle"],
      [matrix("1 \\\\ 2 \\\\ 3"), "[1, 2, 3]"],
    ],
    [
      [matrix("1 & 2 \\\\ 3 & 4"), matrix("1 & 3 \\\\ 2 & 4")],
      [matrix("1 & 2"), matrix("1 \\\\ 2")],
      [matrix("1 & 2 \\\\ 3 & 4"), matrix("1 & 2")],
      [matrix("1 & 2 \\\\ 3 & 4"), "(1,2,3,4)"],
      [matrix("1 & 2 \\\\ 3 & 4"), matrix("1 & 2 \\\\ 3 & 5")],
      [matrix("1 \\\\ 2"), "(2,1)"],
      [matrix("1 \\\\ 2"), "[1,2]"],
      [matrix("1 \\\\ 2"), "1,2"],
      [matrix("1 \\\\ 2"), "3"],
      [matrix("a"), matrix("b")],
      [matrix("1 & 2 & 3 & 4"), matrix("1 & 2 \\\\ 3 & 4")],
      [matrix("-1"), matrix("1")],
      [matrix("x"), matrix("x^2")],
      [matrix("0 & 0"), matrix("0 & 0 & 0")],
      [matrix("1 \\\\ 2"), "yes"],
    ],
  );
});

describe("choices and words", () => {
  kinds(
    [
      ["\\text{(C)}", "C"],
      ["C", "(C)"],
      ["(C)", "\\textbf{(C)}"],
      ["\\text{(C)}", "(C) 15"],
      ["B", "B. because it is so"],
      ["B", "B) 12"],
      ["B", "\\textbf{(B)}\\ 12"],
      ["yes", "\\text{Yes}"],
      ["Yes", "True"],
      ["no", "False"],
      ["\\text{Evelyn}", "Evelyn"],
      ["\\text{ellipse}", "an ellipse"],
      ["\\text{Sunday}", "sunday."],
      ["Arithmetic Progression", "\\text{arithmetic progression}"],
      ["uncountable", "Uncountable"],
      ["\\text{odd}", "odd"],
    ],
    [
      ["C", "D"],
      ["C", "c"],
      ["C", "Carbon"],
      ["A", "A + 1"],
      ["A", "(A, B)"],
      ["B", "(C) B"],
      ["yes", "no"],
      ["true", "no"],
      ["no", "on"],
      ["even", "odd"],
      ["even", "5"],
      ["5", "even"],
      ["\\text{neither}", "\\text{both}"],
      ["5", "at least 5"],
      ["\\text{Monday}", "\\text{Tuesday}"],
    ],
  );
});

describe("what this thread cannot tell", () => {
  test.each([
    ["6", "\\sum_{k=1}^{3} k"],
    ["6", "\\gcd(12, 18)"],
    ["2^{100}", "2^{100}+\\sqrt{10^{-50}+2}-\\sqrt{2}"],
    ["\\sqrt{2}", "\\sqrt{2} + 10^{-20}"],
    ["\\pi^{9^{9^9}}", "\\pi^{9^{9^8}}"],
  ])("%s and %s go to computer algebra", (truth, candidate) => {
    const comparison = compareAnswers(truth, candidate, OPTIONS);
    expect(comparison.kind === "open" && comparison.pairs.length).toBe(1);
  });

  test.each([
    ["12", "1 2"],
    ["\\frac{3}{4}", "\\frac{34}{}"],
    ["f'(x)", "f''(x)"],
    ["\\mathbb{Q}/\\mathbb{Z}", "\\mathbb{Z} \\oplus \\mathbb{Z}"],
    ["5", "{{{"],
    ["P A P^{-1}", "A"],
    ["AB", "BA"],
    ["(A + B)^2", "A^2 + 2AB + B^2"],
    ["AX = B", "XA = B"],
  ])("%s and %s are not guessed at", (truth, candidate) => {
    const comparison = compareAnswers(truth, candidate, OPTIONS);
    expect(comparison.kind === "different" || (comparison.kind === "open" && comparison.pairs.length === 0)).toBe(true);
  });

  test("a point with an open coordinate is open in that coordinate alone", () => {
    const comparison = compareAnswers("(1, 6)", "(1, \\gcd ( 12 , 18 ))", OPTIONS);
    expect(comparison).toEqual({ kind: "open", pairs: [["6", "\\gcd ( 12 , 18 )"]] });
  });

  test("a point with one wrong coordinate is different, whatever the other says", () => {
    expect(compareAnswers("(1, 6)", "(2, \\gcd ( 12 , 18 ))", OPTIONS).kind).toBe("different");
  });
});

describe("answers made to take long", () => {
  test.each([
    ["sets in sets", `${"\\{".repeat(300)}1${"\\}".repeat(300)}`, `${"\\{".repeat(300)}2${"\\}".repeat(300)}`],
    ["functions of functions", `${"f(".repeat(200)}x${")".repeat(200)}`, `${"f(".repeat(199)}x${")".repeat(199)}`],
    ["towers", `x${"^{x".repeat(200)}${"}".repeat(200)}`, "x"],
    ["braces", `${"{".repeat(900)}1${"}".repeat(900)}`, "2"],
    ["large powers", Array.from({ length: 100 }, (_, i) => `9^{9${i}9}`).join("*"), "1"],
    [
      "many solutions",
      Array.from({ length: 200 }, (_, i) => `${i}x`).join(", "),
      Array.from({ length: 200 }, (_, i) => `${i}y`).join(", "),
    ],
  ])("%s are settled in under two seconds", { timeout: 2_000 }, (_, truth, candidate) => {
    expect(compareAnswers(truth, candidate, OPTIONS).kind).not.toBe("equal");
  });
});
