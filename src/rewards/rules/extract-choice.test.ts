import fc from "fast-check";
import { expect, test } from "vitest";
import { extractChoice } from "./extract-choice.ts";

test.each([
  ["So \\boxed{B}.", "B"],
  ["First \\boxed{A}, no: \\boxed{C}", "C"],
  ["\\boxed{\\text{(D)}}", "D"],
  ["$\\boxed{ \\mathbf{b} }$", "B"],
  ["\\boxed{B) 1/3}", "B"],
  ["\\boxed{Because}", undefined],
  ["\\boxed{A, B}", undefined],
  ["\\boxed{42}. The answer is C.", "C"],
  ["The answer is (B).", "B"],
  ["the correct answer is: **c**", "C"],
  ["Answer: D", "D"],
  ["ANSWER: $D$", "D"],
  ["The correct option is A because of B.", "A"],
  ["The answer is option B", "B"],
  ["The answer is A. Wait, the answer is B.", "B"],
  ["The answer is A or B.", undefined],
  ["The answer is (A), (B)", undefined],
  ["The answer is a small number.", undefined],
  ["The answer is Adenine.", undefined],
  ["The answer is B'.", undefined],
  ["**Answer:** B", "B"],
  ["**Answer**: (B)", "B"],
  ["The answer to this question is D.", "D"],
  ["The answer is not A.", undefined],
  ["Option C is correct, not A.", "C"],
  ["So choice (B) is the best.", "B"],
  ["The answer is A. No: option B is right.", "B"],
  ["Let me see.\n\n(B)", "B"],
  ["Let me see.\n**B**", "B"],
  ["Let me see.\nB) 1/3", "B"],
  ["Let me see.\nB. Because it is.", "B"],
  ["It must be (C) then", "C"],
  ["(A) and (C) are both possible", undefined],
  ["A dog barks.", undefined],
  ["(A) is wrong\nI do not know", undefined],
  ["(K)", undefined],
  ["", undefined],
] as const)("%s gives %s", (text, letter) => {
  expect(extractChoice(text, "ABCD")).toBe(letter);
});

test("letters that are not offered are not found", () => {
  expect(extractChoice("\\boxed{E}", "ABCD")).toBeUndefined();
  expect(extractChoice("\\boxed{E}", "ABCDEFGHIJ")).toBe("E");
});

test("any text gives an offered letter or nothing", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("answer is ", "\\boxed{", "A", "b", "(", ")", "}", "\n", " or ", "*") }),
      (text) => {
        expect([undefined, "A", "B"]).toContain(extractChoice(text, "AB"));
      },
    ),
  );
});

test("a degenerate reply is read in little time", () => {
  for (const unit of ["answer ", "answer to ", "answer is ", "\\\\boxed{", "(A", "* ", "\n"]) {
    const start = performance.now();
    extractChoice(unit.repeat(50_000), "ABCD");
    expect([unit, performance.now() - start < 2_000]).toEqual([unit, true]);
  }
});
