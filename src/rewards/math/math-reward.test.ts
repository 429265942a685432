import { afterAll, expect, test } from "vitest";
import type { JsonValue } from "../../flow/prompt.ts";
import type { Reward, RewardInput } from "../reward.ts";
import { createScorer } from "../score-all.ts";
import { createMathReward, mathReward } from "./math-reward.ts";

const rewards: Reward[] = [];
const never = new AbortController().signal;

function build(options: object = {}): Reward {
  const reward = createMathReward(mathReward.options.parse(options));
  rewards.push(reward);
  return reward;
}

function input(truth: JsonValue, reply: string): RewardInput {
  const prompt = { id: "set/1", domain: "math", seed: 0, messages: [], truth, extra: {} };
  return { prompt, reply, messages: [], numReplyTokens: 1, isTruncated: false };
}

afterAll(async () => {
  await Promise.all(rewards.map((reward) => reward.close?.()));
});

test("a right answer scores 1 and says what was found and how", async () => {
  expect(await build().score(input("\\frac{1}{2}", "Hence \\boxed{0.5}."), never)).toEqual({
    value: 1,
    parts: { extracted: 1, undecided: 0, symbolic: 0 },
    explanation: 'Found "0.5" (boxed), which equals "\\frac{1}{2}".',
  });
});

test("a wrong answer scores 0", async () => {
  const score = await build().score(input("3", "The answer is 4."), never);
  expect(score.value).toBe(0);
  expect(score.explanation).toBe('Found "4" (phrase), which differs from "3".');
});

test("a reply without an answer scores 0 and counts as not extracted", async () => {
  const score = await build({ extract: ["boxed"] }).score(input("3", "It is 3."), never);
  expect(score).toMatchObject({ value: 0, parts: { extracted: 0 } });
});

test("numbers, whole solutions and lists of right answers are truths", async () => {
  const reward = build();
  expect((await reward.score(input(18, "#### 18"), never)).value).toBe(1);
  expect((await reward.score(input("9 * 2 = 18\n#### 18", "\\boxed{18}"), never)).value).toBe(1);
  expect((await reward.score(input(["east", "E"], "\\boxed{\\text{East}}"), never)).value).toBe(1);
  expect((await reward.score(input(["1", "2"], "\\boxed{3}"), never)).value).toBe(0);
});

test("truthKey names the field to compare with", async () => {
  expect((await build({ truthKey: "answer" }).score(input({ answer: "5" }, "\\boxed{5}"), never)).value).toBe(1);
});

test("a prompt without a truth is refused, not scored", async () => {
  await expect(build().score(input(null, "5"), never)).rejects.toMatchObject({ code: "INVALID_TRUTH" });
  await expect(build().score(input([], "5"), never)).rejects.toMatchObject({ code: "INVALID_TRUTH" });
  await expect(build().score(input("", "5"), never)).rejects.toMatchObject({ code: "INVALID_TRUTH" });
});

test("restating the task as arithmetic does not pay unless it is allowed", async () => {
  const unfinished = input("391", "\\boxed{17 \\cdot 23}");
  expect((await build().score(unfinished, never)).value).toBe(0);
  expect((await build({ acceptUnfinished: true }).score(unfinished, never)).value).toBe(1);
});

test.each([
  ["2^{10}", "1024"],
  ["2^{10}", "4^5"],
  ["\\sqrt{2}", "2^{1/2}"],
  ["\\frac{3}{4}", "0.75"],
  ["0.75", "\\frac{3}{4}"],
  ["-0.75", "\\frac{-3}{4}"],
  ["782/2", "\\frac{782}{2}"],
  ["300000", "3 \\times 10^5"],
  ["1000", "1e3"],
  ["3000000", "3 million"],
  ["24", "2 dozen"],
  ["2.5", "2\\frac{1}{2}"],
  ["3.14159", "\\pi"],
  ["2.41421", "1 + \\sqrt{2}"],
  ["(1, \\infty)", "x > 1"],
  ["2^{100} - 2", "2(2^{99} - 1)"],
])("%s is finished as %s", async (truth, answer) => {
  expect((await build().score(input(truth, `\\boxed{${answer}}`), never)).value).toBe(1);
});

test.each([
  ["391", "17 * 23"],
  ["5", "2 + 3"],
  ["5", "x = 2 + 3"],
  ["\\frac{1}{2}", "1 - \\frac{1}{2}"],
  ["1024", "2^{10}"],
  ["120", "5!"],
  ["391", "782/2"],
  ["391", "\\frac{782}{2}"],
  ["391", "39.1 \\cdot 10"],
  ["391", "0.391 \\times 10^3"],
  ["4", "\\sqrt{16}"],
  ["3", "\\sqrt[3]{27}"],
  ["1", "0.5 + 0.5"],
  ["2", "0.5 / 0.25"],
  ["10", "\\binom{5}{2}"],
  ["3", "\\log_2 8"],
  ["\\frac{1}{2}", "\\sin 30^\\circ"],
  ["-1", "\\cos \\pi"],
  ["5", "-(-5)"],
  ["5", "|-5|"],
  ["3", "\\lfloor 3.7 \\rfloor"],
  ["6", "\\sum_{k=1}^{3} k"],
  ["6", "\\gcd(12, 18)"],
  ["(3, 4)", "(6/2, 2^2)"],
  ["\\{1, 2\\}", "\\{1, 4/2\\}"],
  ["x = 5", "x = \\frac{10}{2}"],
])("%s is not finished as %s", async (truth, answer) => {
  expect((await build().score(input(truth, `\\boxed{${answer}}`), never)).value).toBe(0);
});

test("what needs computer algebra goes to a thread and comes back decided", async () => {
  const reward = build();
  const right = await reward.score(input("\\frac{n(n+1)}{2}", "\\boxed{\\sum_{k=1}^n k}"), never);
  expect(right).toMatchObject({ value: 1, parts: { symbolic: 1, undecided: 0 } });
  expect(await reward.score(input("7", "\\boxed{\\gcd(12, 18)}"), never)).toMatchObject({
    value: 0,
    parts: { symbolic: 1 },
  });
});

test("a hang is a timeout and never a zero", async () => {
  const hang = input("\\pi^{9^{9^9}}", "\\boxed{\\pi^{9^{9^8}}}");
  await expect(build({ timeoutMs: 500 }).score(hang, never)).rejects.toMatchObject({ code: "REWARD_TIMEOUT" });
});

test("a cheap answer does not wait behind forty costly ones", async () => {
  const scorer = createScorer({ reward: build({ timeoutMs: 60_000 }), clock: () => 0 });
  const costly = (power: number) => input("\\pi^{9^{9^9}}", `\\boxed{\\pi^{9^{9^{${power}}}}}`);
  const outcomes = Array.from({ length: 40 }, (_, i) => scorer.score(costly(i + 10), never));
  expect(await Promise.race([...outcomes, scorer.score(input("5", "\\boxed{5}"), never)])).toMatchObject({ score: 1 });
  await scorer.close();
  await Promise.all(outcomes);
});

test("an answer nobody can compare is wrong, visibly, or an error where that is asked for", async () => {
  const strange = input("\\mathbb{Q}/\\mathbb{Z}", "\\boxed{\\mathbb{Z} \\oplus \\mathbb{Z}}");
  expect(await build().score(strange, never)).toMatchObject({ value: 0, parts: { undecided: 1 } });
  await expect(build({ undecided: "error" }).score(strange, never)).rejects.toMatchObject({ code: "REWARD_UNDECIDED" });
});

test("unknown options are refused", () => {
  expect(() => mathReward.options.parse({ tolerance: 0.1 })).toThrow("tolerance");
});
