/** The rule rewards, each by a table of replies. */
import { afterAll, describe, expect, test } from "vitest";
import { never, rewardInput } from "../../../test/rewards/reward-input.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { buildReward, type RewardChoice } from "../catalog.ts";
import type { Reward } from "../reward.ts";

const built = new Map<string, Promise<Reward>>();
afterAll(async () => {
  for (const reward of built.values()) await (await reward).close?.();
});

/** Rewards with the same options are built once: some own a thread. */
async function score(choice: RewardChoice, reply: string, truth: JsonValue = null, numReplyTokens = 0) {
  const key = JSON.stringify(choice);
  const reward = built.get(key) ?? buildReward(choice);
  built.set(key, reward);
  return (await reward).score({ ...rewardInput(reply, truth), numReplyTokens }, never);
}

describe("what a person wrote and a model exploits", () => {
  const exploding = "a".repeat(40);
  test.each<[string, RewardChoice, string]>([
    ["a pattern", { type: "regex", pattern: "(a+)+$" }, `${exploding}!`],
    ["a pattern for the whole reply", { type: "format", pattern: "(a|a)*b" }, exploding],
    ["a pattern in a schema", { type: "json-schema", schema: { pattern: "^(a+)+$" } }, `"${exploding}!"`],
    [
      "a pattern for keys",
      { type: "json-schema", schema: { patternProperties: { "^(a+)+$": {} } } },
      `{"${exploding}!": 1}`,
    ],
    [
      "alternatives inside of alternatives",
      { type: "json-schema", schema: { anyOf: [1, 2].map(() => ({ type: "array", items: { $ref: "#" } })) } },
      `${"[".repeat(60)}1${"]".repeat(60)}`,
    ],
  ])("%s is stopped, and the event loop turns meanwhile", async (_what, choice, reply) => {
    let numTurns = 0;
    const timer = setInterval(() => numTurns++, 10);
    await expect(score(choice, reply)).rejects.toMatchObject({ code: "REWARD_TIMEOUT" });
    clearInterval(timer);
    expect(numTurns).toBeGreaterThan(20);
  });

  test("a reply after a stopped one is scored", async () => {
    expect(await score({ type: "regex", pattern: "(a+)+$" }, "aaa")).toMatchObject({ value: 1 });
  });

  test("JSON that nests without end is no JSON, and many items are compared once each", async () => {
    const unique: RewardChoice = { type: "json-schema", schema: { uniqueItems: true } };
    expect(await score(unique, "[".repeat(100_000) + "]".repeat(100_000))).toMatchObject({ parts: { extracted: 0 } });
    const many = Array.from({ length: 50_000 }, (_, i) => ({ a: i, b: [i] }));
    expect(await score(unique, JSON.stringify(many))).toMatchObject({ value: 1 });
    expect(await score(unique, JSON.stringify([...many, { b: [7], a: 7 }]))).toMatchObject({ value: 0 });
    expect(await score(unique, "null")).toMatchObject({ value: 1 });
  });
});

describe("choice", () => {
  test.each([
    { reply: "<think>A?</think>The answer is (B).", truth: "B", value: 1, extracted: 1 },
    { reply: "The answer is (C).", truth: "(B)", value: 0, extracted: 1 },
    { reply: "Who knows.", truth: "b", value: 0, extracted: 0 },
    { reply: "\\boxed{C}", truth: ["B", "C"], value: 1, extracted: 1 },
  ])("$reply for $truth is $value", async ({ reply, truth, value, extracted }) => {
    expect(await score({ type: "choice" }, reply, truth)).toMatchObject({ value, parts: { extracted } });
  });

  test("a reply without a letter can cost more than a wrong one", async () => {
    expect(await score({ type: "choice", missing: -1 }, "Who knows.", "B")).toMatchObject({ value: -1 });
  });

  test("a truth that is no offered letter is an error, not a zero", async () => {
    await expect(score({ type: "choice", letters: "AB" }, "\\boxed{A}", "C")).rejects.toThrow(
      'needs one of the letters AB as truth: got "C"',
    );
    await expect(score({ type: "choice" }, "\\boxed{A}", null)).rejects.toThrow("needs a text, a number or a list");
  });
});

describe("exact", () => {
  const after = { type: "exact", after: "the answer is" } as const;
  test.each([
    { choice: { type: "exact" }, reply: " Western  Blot.", truth: "western blot", value: 1 },
    { choice: { type: "exact" }, reply: "the western blot", truth: "western blot", value: 0 },
    { choice: { type: "exact", ignoreCase: false }, reply: "western", truth: "Western", value: 0 },
    { choice: { type: "exact", ignorePunctuation: false }, reply: "so.", truth: "so", value: 0 },
    { choice: { type: "exact" }, reply: "42", truth: 42, value: 1 },
    { choice: { type: "exact" }, reply: "cafe\u0301", truth: "café", value: 1 },
    { choice: { type: "exact", lastLine: true }, reply: "so:\nfour\n", truth: "four", value: 1 },
    { choice: after, reply: "Hm. Therefore, the answer is: Muscles.", truth: "muscles", value: 1 },
    { choice: after, reply: "The answer is no. The answer is yes", truth: ["no", "yes"], value: 1 },
    { choice: after, reply: "Muscles", truth: "muscles", value: 0 },
    { choice: { type: "exact", truthKey: "answer" }, reply: "a", truth: { answer: "a" }, value: 1 },
  ] as const)("$choice: $reply for $truth is $value", async ({ choice, reply, truth, value }) => {
    expect(await score(choice, reply, truth as JsonValue)).toMatchObject({ value });
  });

  test("a missing field of the truth is named", async () => {
    await expect(score({ type: "exact", truthKey: "answer" }, "a", { result: "a" })).rejects.toThrow(
      'compares with truth.answer, which prompt "test/0" does not have',
    );
  });
});

describe("regex", () => {
  test.each([
    { choice: { type: "regex", pattern: "^\\d+$" }, reply: "42", value: 1 },
    { choice: { type: "regex", pattern: "^\\d+$" }, reply: "so 42", value: 0 },
    { choice: { type: "regex", pattern: "YES", flags: "i" }, reply: "Yes.", value: 1 },
    { choice: { type: "regex", pattern: "#### (.+)", compareWithTruth: true }, reply: "#### 1\n#### 42 ", value: 1 },
    { choice: { type: "regex", pattern: "#### (.+)", compareWithTruth: true }, reply: "#### 41", value: 0 },
    { choice: { type: "regex", pattern: "hm" }, reply: "<think>hm</think>", value: 0 },
    { choice: { type: "regex", pattern: "hm", ignoreThinking: false }, reply: "<think>hm</think>", value: 1 },
  ] as const)("$choice: $reply is $value", async ({ choice, reply, value }) => {
    expect(await score(choice, reply, "42")).toMatchObject({ value });
  });

  test("a broken pattern is refused when it is read", async () => {
    await expect(buildReward({ type: "regex", pattern: "(" })).rejects.toThrow(
      'reward.pattern is not valid: got "(". It is no valid pattern.',
    );
  });
});

describe("contains", () => {
  test.each([
    { choice: { type: "contains" }, reply: "It is PARIS.", value: 1 },
    { choice: { type: "contains", ignoreCase: false }, reply: "It is PARIS.", value: 0 },
    { choice: { type: "contains", all: ["a", "b"] }, reply: "a", value: 0 },
    { choice: { type: "contains", all: ["a", "b"], partial: true }, reply: "a", value: 0.5 },
    { choice: { type: "contains", any: ["a", "b"] }, reply: "b", value: 1 },
    { choice: { type: "contains", any: ["a", "b"], none: ["c"] }, reply: "bc", value: 0 },
  ] as const)("$choice: $reply is $value", async ({ choice, reply, value }) => {
    expect(await score(choice as RewardChoice, reply, "paris")).toMatchObject({ value });
  });
});

describe("format", () => {
  const think = { type: "format", tags: ["think"] } as const;
  const both = { type: "format", tags: ["think", "answer"] } as const;
  test.each([
    { choice: think, reply: "<think>hm</think> four", value: 1 },
    { choice: think, reply: "so <think>hm</think> four", value: 0 },
    { choice: think, reply: "<think>hm</think> <think>hm</think>", value: 0 },
    { choice: think, reply: "<think>hm", value: 0 },
    { choice: think, reply: "hm</think> four", value: 0 },
    { choice: { ...think, isOpened: true }, reply: "hm</think> four", value: 1 },
    { choice: { ...think, textAfter: false }, reply: "<think>hm</think> four", value: 0 },
    { choice: both, reply: "<think>hm</think>\n<answer>4</answer>\n", value: 1 },
    { choice: both, reply: "<think>hm</think><answer>4</answer> so", value: 0 },
    { choice: both, reply: "<think>hm</think> so <answer>4</answer>", value: 0 },
    { choice: both, reply: "<answer>4</answer><think>hm</think>", value: 0 },
    { choice: both, reply: "<think>hm<answer>4</answer></think>", value: 0 },
    { choice: { type: "format", pattern: "\\d+\\n.*" }, reply: "12\nso\nso", value: 1 },
    { choice: { type: "format", pattern: "a|b", match: 0, miss: -1 }, reply: "ab", value: -1 },
  ] as const)("$choice: $reply is $value", async ({ choice, reply, value }) => {
    expect(await score(choice as RewardChoice, reply)).toMatchObject({ value });
  });

  test("tags and a pattern together, or neither, are refused", async () => {
    await expect(buildReward({ type: "format" })).rejects.toThrow("Give either tags or pattern");
    await expect(buildReward({ type: "format", tags: ["a"], pattern: "a" })).rejects.toThrow("Give either");
  });
});

describe("length", () => {
  const target = { shape: "target", target: 100, tolerance: 50 } as const;
  const cosine = { shape: "cosine", maxTokens: 100, short: 2, long: 1, exceeded: -10 } as const;
  const overlong = { shape: "overlong", maxTokens: 100, bufferTokens: 20 } as const;
  test.each([
    { curve: target, tokens: 100, value: 1 },
    { curve: target, tokens: 75, value: 0.5 },
    { curve: target, tokens: 200, value: 0 },
    { curve: cosine, tokens: 0, value: 2 },
    { curve: cosine, tokens: 50, value: 1.5 },
    { curve: cosine, tokens: 100, value: 1 },
    { curve: cosine, tokens: 101, value: -10 },
    { curve: overlong, tokens: 80, value: 0 },
    { curve: overlong, tokens: 85, value: -0.25 },
    { curve: overlong, tokens: 100, value: -1 },
    { curve: overlong, tokens: 500, value: -1 },
    { curve: { ...overlong, bufferTokens: 0, penalty: 3 }, tokens: 100, value: 0 },
    { curve: { ...overlong, bufferTokens: 0, penalty: 3 }, tokens: 101, value: -3 },
  ])("$curve: $tokens tokens are $value", async ({ curve, tokens, value }) => {
    const scored = await score({ type: "length", curve }, "", null, tokens);
    expect(scored.value).toBeCloseTo(value, 12);
    expect(scored.parts).toEqual({ tokens });
  });

  test("a buffer longer than the limit is refused", async () => {
    const curve = { shape: "overlong", maxTokens: 10, bufferTokens: 20 } as const;
    await expect(buildReward({ type: "length", curve })).rejects.toThrow(
      "reward.curve.bufferTokens is not valid: got 20",
    );
  });
});

describe("repetition", () => {
  test.each([
    { reply: "so so so so so", ngram: 2, value: -0.75 },
    { reply: "The cat, the CAT", ngram: 2, value: -1 / 3 },
    { reply: "a b c d", ngram: 2, value: 0 },
    { reply: "a", ngram: 2, value: 0 },
    { reply: "好好好", ngram: 1, value: -2 / 3 },
  ])("$ngram-grams of $reply cost $value", async ({ reply, ngram, value }) => {
    expect((await score({ type: "repetition", ngram }, reply)).value).toBeCloseTo(value, 12);
  });

  test("the penalty can be scaled", async () => {
    expect((await score({ type: "repetition", ngram: 1, maxPenalty: 0.3 }, "a a a")).value).toBeCloseTo(-0.2, 12);
  });
});

describe("json-schema", () => {
  const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
  const values = { valid: 1, parsed: 0.2, broken: -1 };
  test.each([
    { reply: '{"n": 1}', value: 1, explanation: "fits the schema" },
    { reply: '<think>{}</think>So:\n```json\n{"n": 1}\n```\nDone.', value: 1, explanation: "fits the schema" },
    { reply: '{"n": "1"}', value: 0.2, explanation: "$.n is not of type integer" },
    { reply: 'So: {"n": 1}', value: -1, explanation: "holds no JSON" },
    { reply: "null", value: 0.2, explanation: "$ is not of type object" },
  ])("$reply is $value", async ({ reply, value, explanation }) => {
    expect(await score({ type: "json-schema", schema, ...values }, reply)).toMatchObject({ value, explanation });
    expect(await score({ type: "json-schema", ...values }, reply, schema)).toMatchObject({ value });
    expect(await score({ type: "json-schema", ...values }, reply, JSON.stringify(schema))).toMatchObject({ value });
  });

  test("a schema that asks for what is not checked is refused", async () => {
    await expect(buildReward({ type: "json-schema", schema: { typ: "object" } })).rejects.toThrow(
      '# has the keyword "typ", which is not checked here. Did you mean "type"?',
    );
  });
});
