import { describe, expect, test } from "vitest";
import { type ExtractionMethod, extractAnswer } from "./extract-answer.ts";

const CASES: readonly (readonly [reply: string, text: string, method: ExtractionMethod])[] = [
  ["So we get \\boxed{42}.", "42", "boxed"],
  ["First \\boxed{1}, no: \\boxed{\\frac{1}{2}}", "\\frac{1}{2}", "boxed"],
  ["\\boxed{\\{1, \\sqrt{2}\\}}", "\\{1, \\sqrt{2}\\}", "boxed"],
  ["\\fbox{yes}", "yes", "boxed"],
  ["\\boxed 7 is it", "7", "boxed"],
  ["\\boxed{3} and then \\boxed{4", "3", "boxed"],
  ["$\\boxed{ (C) }$", "(C)", "boxed"],
  ["3 + 4 = 7\n#### 7", "7", "hash"],
  ["#### 1,234\n", "1,234", "hash"],
  ["#### 5\nwait\n#### 6", "6", "hash"],
  ["<answer>12</answer>", "12", "tag"],
  ["<answer>one</answer><answer> two </answer>", "two", "tag"],
  ["<answer>\\boxed{9}</answer>", "9", "boxed"],
  ["The answer is 5.", "5", "phrase"],
  ["The answer is $1$, $2$ and $3$.", "$1$, $2$ and $3$", "phrase"],
  ["The answer is $\\frac{3}{4}$, as we wanted.", "\\frac{3}{4}", "phrase"],
  ["The final answer is: 3.5. I hope it is right.", "3.5", "phrase"],
  ["**Answer:** 18", "18", "phrase"],
  ["The answer to the question is $1$ or $2$.", "$1$ or $2$", "phrase"],
  ["the answer is \\(x^2\\).", "x^2", "phrase"],
  ["Hence\n$x = 5$", "x = 5", "line"],
  ["We compute.\n\\frac{7}{8}", "\\frac{7}{8}", "line"],
  ["It follows that\n2 + 3 = 6 - 1 = 5", "5", "line"],
  ["Which one?\nParis", "Paris", "line"],
  ["She pays 12 dollars and gets 7 back in the end", "7", "number"],
  ["There are 1,250 of them in total, I think so", "1,250", "number"],
  ["it fell to -3 degrees that night over there", "-3", "number"],
  ["we have 10-3 apples which are some apples", "3", "number"],
  ["about 3/4 of it was eaten by the children", "3/4", "number"],
  ["<think>the answer is 3</think>The answer is 4", "4", "phrase"],
];

describe("extractAnswer", () => {
  test.each(CASES)("finds in %j the answer %j by %s", (reply, text, method) => {
    expect(extractAnswer(reply)).toEqual({ text, method });
  });

  test("looks inside a tag for a box or a sentence", () => {
    expect(extractAnswer("<answer>The answer is 5.</answer>", ["tag"])).toEqual({ text: "5", method: "tag" });
    expect(extractAnswer("<answer>so \\boxed{9}</answer>", ["tag"])).toEqual({ text: "9", method: "tag" });
  });

  test("the order of the methods decides, and the first find is final", () => {
    const reply = "\\boxed{1}\n#### 2";
    expect(extractAnswer(reply, ["boxed", "hash"])?.text).toBe("1");
    expect(extractAnswer(reply, ["hash", "boxed"])?.text).toBe("2");
  });

  test("a reply that does not use a demanded form has no answer", () => {
    expect(extractAnswer("The answer is 5.", ["boxed"])).toBeNull();
    expect(extractAnswer("\\boxed{5", ["boxed"])).toBeNull();
    expect(extractAnswer("")).toBeNull();
    expect(extractAnswer("no idea at all, sorry")).toBeNull();
  });

  test("unfinished thinking holds no answer", () => {
    expect(extractAnswer("<think>it could be \\boxed{5}")).toBeNull();
  });

  test("ten thousand boxes without an end are refused at once", () => {
    expect(extractAnswer("\\boxed{".repeat(10_000), ["boxed"])).toBeNull();
  });
});
