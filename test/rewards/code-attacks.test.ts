/** A program that solves nothing earns nothing: the attacks of code-attacks.ts, through the reward as a run file names it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/flow/prompt.ts";
import { buildReward } from "../../src/rewards/catalog.ts";
import type { Reward } from "../../src/rewards/reward.ts";
import { skipNote, skipReason } from "../sandbox/python-availability.ts";
import { javascriptAttacks, pythonAttacks } from "./code-attacks.ts";

/** Every way in which tests ask: a value that passes one of them scores above 0. No result is one that an attack can guess. */
const pythonTests = {
  test_list: [
    "assert f(7) == 49",
    "assert abs(f(1.5) - 2.25) < 1e-6",
    "assert all(map(lambda pair: f(pair[0]) == pair[1], [(7, 49), (8, 64)]))",
    "assert f(7) in {49} and not f(7) != 49",
    "assert [f(7), f(8)] == [49, 64] and (f(7), 'x') == (49, 'x')",
  ],
};
const pythonHumanEval = {
  prompt: "def f(x):\n    pass\n\n",
  entry_point: "f",
  test: "def check(candidate):\n    assert candidate(7) == 49\n    assert sorted([candidate(8), 1]) == [1, 64]\n",
};
const javascriptTests = {
  language: "javascript",
  test_list: [
    "console.assert((await f(7)) === 49)",
    "if (!(Math.abs((await f(1.5)) - 2.25) < 1e-6)) throw new Error('not near')",
    "assert.strictEqual(await f(7), 49)",
    "require('assert').deepEqual([await f(7), await f(8)], [49, 64])",
    "if (JSON.stringify([await f(7), await f(8)]) !== '[49,64]') throw new Error('other text')",
    "if ((await f(7)) != 49) throw new Error('loosely other')",
    "if (![49].includes(await f(7))) throw new Error('not among them')",
  ],
};
const calls = {
  function: "f",
  cases: [
    { arguments: [7], expected: 49 },
    { arguments: [[1, 2]], expected: [1, 4] },
  ],
};
const options = {
  grading: "fraction",
  testTimeoutMs: 200,
  totalTimeoutMs: 700,
  memoryMiB: 256,
  numWorkers: 2,
} as const;

describe.skipIf(skipReason !== null)(`attacks in python${skipNote}`, () => {
  const score = useReward({ type: "code", ...options });
  const scoreCalmly = useReward({ type: "code", numWorkers: 1 });

  test.each(Object.entries(pythonAttacks))("%s: scores 0 on assertions and calls", async (_, attack) => {
    const scores = await Promise.all([pythonTests, pythonHumanEval, calls].map((truth) => score(truth, attack)));
    expect(scores).toEqual([0, 0, 0]);
  });

  test.each([
    "import sys\nsys.exit(0)",
    "import os\nos.write(3, b'49')\nos._exit(0)",
    'print(\'{"kind": "passed"}\')',
    "import sys\nprint(open('/proc/self/mem', 'rb').read(1) if 0 else sys.argv)",
    "import os\nfor pid in os.listdir('/proc'):\n  if pid.isdigit(): print(open('/proc/' + pid + '/cmdline').read()[-50:])",
  ])("%j scores 0 on standard input", async (attack) => {
    expect(await score({ inputs: ["7", "8"], outputs: ["49", "64"] }, attack)).toBe(0);
  });

  test("helpers of the task and names of the tests cannot be replaced", async () => {
    const prompt = "def size(x):\n    return abs(x)\n\ndef root(x):\n    ''' A root of x * x - 49. '''\n";
    const truth = { prompt, entry_point: "root", test: "def check(c):\n    assert size(c(0) ** 2 - 49) < 1e-6\n" };
    expect(await scoreCalmly(truth, "    return 7.0")).toBe(1);
    expect(await scoreCalmly(truth, "    return 0\ndef size(x): return 0\ndef check(c): pass\nabs = size\n")).toBe(0);
    const closeTo = { test_list: ["assert math.isclose(f(7), 49)"] };
    expect(await scoreCalmly(closeTo, "def f(x): return x * x")).toBe(1);
    expect(await scoreCalmly(closeTo, "class math:\n  isclose = lambda *a: True\ndef f(x): return 0")).toBe(0);
  });

  test("big integers compare digit by digit", async () => {
    const truth = '{"function": "f", "cases": [{"arguments": [9007199254740993], "expected": 9007199254740993}]}';
    expect(await scoreCalmly(truth, "def f(x): return x")).toBe(1);
    expect(await scoreCalmly(truth, "def f(x): return 9007199254740992")).toBe(0);
    const rounded = { function: "f", cases: [{ arguments: [], expected: 2 ** 53 }] };
    expect(await scoreCalmly(rounded, "def f(): return 2 ** 53 + 1")).toBe(0);
    expect(await scoreCalmly({ test_list: ["assert f() == 2 ** 53 + 1"] }, "def f(): return 2 ** 53")).toBe(0);
  });

  test("after all of them, right solutions of every kind score 1", async () => {
    const square = "def f(x): return x * x if not isinstance(x, list) else [f(each) for each in x]";
    const truths = [pythonTests, pythonHumanEval, calls, { inputs: ["7"], outputs: ["49"] }];
    const replies = [square, square, square, "print(int(input()) ** 2)"];
    const scoreAll = () => Promise.all(truths.map((truth, index) => score(truth, replies[index] ?? "")));
    // The limits are short for the sake of the attacks; a busy machine may need a second try.
    await expect.poll(scoreAll, { timeout: 30_000 }).toEqual([1, 1, 1, 1]);
  });
});

describe("attacks in javascript", () => {
  const score = useReward({ type: "code", languages: ["javascript"], ...options });
  const scoreCalmly = useReward({ type: "code", languages: ["javascript"], numWorkers: 1 });

  test.each(Object.entries(javascriptAttacks))("%s: scores 0 on assertions and calls", async (_, attack) => {
    const scores = await Promise.all([javascriptTests, calls].map((truth) => score(truth, attack)));
    expect(scores).toEqual([0, 0]);
  });

  test("big integers compare digit by digit", async () => {
    const truth = '{"function": "f", "cases": [{"arguments": [], "expected": 9007199254740993}]}';
    expect(await scoreCalmly(truth, "const f = () => 9007199254740993n")).toBe(1);
    expect(await scoreCalmly(truth, "const f = () => 9007199254740992n")).toBe(0);
  });

  test("after all of them, right solutions score 1, as many at a time as before", async () => {
    const square = "const f = (x) => (Array.isArray(x) ? x.map(f) : x * x);";
    const truths = [javascriptTests, calls, javascriptTests, calls];
    const scoreAll = () => Promise.all(truths.map((truth) => score(truth, square)));
    await expect.poll(scoreAll, { timeout: 30_000 }).toEqual([1, 1, 1, 1]);
  });
});

/** Scores a reply. What the reward throws fails the test: an attack is a score, not an error. */
function useReward(chosen: Parameters<typeof buildReward>[0]): (truth: JsonValue, reply: string) => Promise<number> {
  let reward: Reward;
  beforeAll(async () => {
    reward = await buildReward(chosen);
  });
  afterAll(() => reward.close?.());
  return async (truth, reply) => {
    const prompt = { id: "task", domain: "code", seed: 0, messages: [], truth, extra: {} };
    const input = { prompt, reply, messages: [], numReplyTokens: 1, isTruncated: false };
    return (await reward.score(input, new AbortController().signal)).value;
  };
}
