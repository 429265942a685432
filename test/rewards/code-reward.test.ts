/** The code reward on small tasks of every kind. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/flow/prompt.ts";
import { codeReward } from "../../src/rewards/code/code-reward.ts";
import type { Reward, RewardInput, RewardScore } from "../../src/rewards/reward.ts";
import { skipNote, skipReason } from "../sandbox/python-availability.ts";
import { type CodeTask, javascriptTasks, pythonTasks } from "./code-tasks.ts";

const limits = { testTimeoutMs: 1000, numWorkers: 2, memoryMiB: 256 };

describe.skipIf(skipReason !== null)(`code reward, python${skipNote}`, () => {
  describeTasks(pythonTasks, { ...limits });

  test("the fraction of passed tests is the score where that is asked for", async () => {
    const reward = await build({ ...limits, grading: "fraction" });
    const truth = { test_list: ["assert f(1) == 1", "assert f(2) == 4", "assert f(3) == 9", "assert f(4) == 16"] };
    expect(await score(reward, truth, "def f(x): return x * x if x != 2 else 0")).toEqual({
      value: 0.75,
      parts: { extracted: 1, passedTests: 3 },
      explanation: "Test 2 of 4 fails: assert f(2) == 4: AssertionError",
    });
    const slow = "import os\ndef f(x):\n    while x == 3: pass\n    if x == 4: os._exit(0)\n    return x * x";
    expect(await score(reward, truth, slow)).toMatchObject({ value: 0.5 });
    const stdin = { inputs: ["1", "2", "3"], outputs: ["1", "4", "9"] };
    expect(await score(reward, stdin, "print(int(input()) * 3 - 2)")).toMatchObject({ value: 2 / 3 });
    await reward.close?.();
  });

  test("the time of all tests together is limited", async () => {
    const reward = await build({ ...limits, grading: "fraction", totalTimeoutMs: 1000 });
    const texts = Array.from({ length: 10 }, (_, index) => `${index}`);
    const reply = "import time\ntime.sleep(0.3)\nprint(input())";
    const { value } = await score(reward, { inputs: texts, outputs: texts }, reply);
    expect(value).toBeGreaterThan(0);
    expect(value).toBeLessThanOrEqual(0.3);
    await reward.close?.();
  });

  test("an abort ends the run, and rejects", async () => {
    const reward = await build({ ...limits, testTimeoutMs: 60_000, totalTimeoutMs: 60_000 });
    const signal = AbortSignal.timeout(200);
    const scoring = reward.score(inputOf({ test_list: ["assert f()"] }, "def f():\n  while True: pass"), signal);
    await expect(scoring).rejects.toMatchObject({ name: "TimeoutError" });
    await reward.close?.();
  });

  test.each([null, 7, "text", {}, [], { test_list: [] }, { inputs: ["1"], outputs: [] }, { prompt: "x" }])(
    "a truth without tests throws: %j",
    async (truth) => {
      const reward = await build(limits);
      await expect(score(reward, truth, "print(1)")).rejects.toMatchObject({ code: "INVALID_TRUTH" });
      await reward.close?.();
    },
  );

  test("a language that the reward was not built for throws", async () => {
    const reward = await build(limits);
    await expect(score(reward, { language: "javascript", test_list: ["1"] }, "1")).rejects.toThrow(/option languages/);
    await reward.close?.();
  });

  test("a closed sandbox is a failure of the reward, not of the code", async () => {
    const reward = await build(limits);
    await reward.close?.();
    await expect(score(reward, { test_list: ["assert True"] }, "x = 1")).rejects.toMatchObject({
      code: "SANDBOX_CLOSED",
    });
  });
});

describe("code reward, javascript", () => {
  describeTasks(javascriptTasks, { ...limits, languages: ["javascript"] });
});

test("unknown options are refused", () => {
  expect(codeReward.options.safeParse({ timeout: 1 }).success).toBe(false);
  expect(codeReward.type).toBe("code");
});

function describeTasks(tasks: readonly CodeTask[], options: Record<string, unknown>): void {
  let reward: Reward;
  beforeAll(async () => {
    reward = await build(options);
  });
  afterAll(() => reward.close?.());

  for (const { name, truth, right, wrong } of tasks) {
    test.each(right)(`${name}: %j scores 1`, async (reply) => {
      expect(await score(reward, truth, reply)).toMatchObject({
        value: 1,
        parts: { extracted: 1 },
        explanation: expect.stringMatching(/^All \d+ tests pass\.$/),
      });
    });
    test.each(wrong)(`${name}: %j scores 0`, async (reply, explanation) => {
      const result = await score(reward, truth, reply);
      expect(result.value).toBe(0);
      expect(result.explanation).toEqual(
        typeof explanation === "string" ? explanation : expect.stringMatching(explanation),
      );
    });
  }
}

async function build(options: Record<string, unknown>): Promise<Reward> {
  return codeReward.build(codeReward.options.parse(options));
}

async function score(reward: Reward, truth: JsonValue, reply: string): Promise<RewardScore> {
  return reward.score(inputOf(truth, reply), new AbortController().signal);
}

function inputOf(truth: JsonValue, reply: string): RewardInput {
  const prompt = { id: "task", domain: "code", seed: 0, messages: [], truth, extra: {} };
  return { prompt, reply, messages: [], numReplyTokens: 1, isTruncated: false };
}
