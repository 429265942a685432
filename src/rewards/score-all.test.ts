import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { never, rewardInput } from "../../test/rewards/reward-input.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Reward, RewardInput, RewardScore } from "./reward.ts";
import { rewardFailure } from "./reward-failure.ts";
import { routeByDomain } from "./route-by-domain.ts";
import { createScorer, type RewardOutcome } from "./score-all.ts";

const clock = () => 0;
const input = rewardInput("so");

function scorerOf(score: Reward["score"], timeoutMs = 20) {
  return createScorer({ reward: { name: "r", cost: "instant", score }, limits: { instant: { timeoutMs } }, clock });
}

function errorOf(outcome: RewardOutcome): RerollError {
  if (outcome.kind !== "failed") throw new Error(`scored ${outcome.score}`);
  return outcome.error;
}

test("a score comes with its parts by name and the time it took", async () => {
  let now = 100;
  const reward: Reward = {
    name: "math",
    cost: "cpu",
    score: async () => {
      now += 7;
      return { value: 0.5, parts: { extracted: 1 }, explanation: "half" };
    },
  };
  expect(await createScorer({ reward, clock: () => now }).score(input, never)).toEqual({
    kind: "scored",
    score: 0.5,
    parts: { math: 0.5, "math/extracted": 1 },
    explanation: "half",
    elapsedMs: 7,
  });
});

test("a promise that is no instance of ours has the same time limit", async () => {
  const hanging = runInNewContext("new Promise(() => {})") as Promise<RewardScore>;
  const error = errorOf(await scorerOf(() => hanging).score(input, never));
  expect(error.message).toContain("it took longer than 20 ms");
});

test("an answer that is given because the reward was told to stop is too late", async () => {
  const scorer = scorerOf(
    (_, signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ value: 1 }))),
  );
  expect(errorOf(await scorer.score(input, never)).message).toContain("it took longer than 20 ms");
});

test("a reward that throws fails by its name, with the prompt and the cause", async () => {
  const cause = new Error("no idea");
  const scorer = scorerOf(() => {
    throw cause;
  });
  const error = errorOf(await scorer.score(input, never));
  expect(error).toBeInstanceOf(RerollError);
  expect(error).toMatchObject({ code: "REWARD_FAILED", message: 'Reward "r" failed: no idea', cause });
  expect(error.details).toEqual({ reward: "r", prompt: "test/0" });
});

test("the code of a cause is kept", async () => {
  const scorer = scorerOf(() => Promise.reject(new RerollError("BUDGET_SPENT", "all gone")));
  expect(errorOf(await scorer.score(input, never))).toMatchObject({ code: "BUDGET_SPENT" });
});

test("a failure that names its reward already does so once", async () => {
  const scorer = scorerOf(() => Promise.reject(rewardFailure("r", new Error("no idea"))));
  expect(errorOf(await scorer.score(input, never)).message).toBe('Reward "r" failed: no idea');
});

test("a reward that hangs is told to stop, fails, and frees its slot", async () => {
  const told: AbortSignal[] = [];
  const reward: Reward = {
    name: "slow",
    cost: "network",
    score: (_, signal) => {
      told.push(signal);
      return told.length === 1 ? new Promise(() => {}) : { value: 1 };
    },
  };
  const limits = { network: { timeoutMs: 20, concurrency: 1 } };
  const scorer = createScorer({ reward, limits, clock });
  const [first, second] = [scorer.score(input, never), scorer.score(input, never)];
  expect(errorOf(await first)).toMatchObject({
    code: "REWARD_TIMEOUT",
    message: 'Reward "slow" failed: it took longer than 20 ms. Raise timeoutMs of its cost class, or make it faster.',
  });
  expect(told[0]?.aborted).toBe(true);
  expect(await second).toMatchObject({ kind: "scored", score: 1 });
});

test.each([
  { given: { value: Number.NaN }, shown: "{ value: NaN }" },
  { given: { value: Number.POSITIVE_INFINITY }, shown: "{ value: Infinity }" },
  { given: { value: "1" }, shown: "{ value: '1' }" },
  { given: undefined, shown: "undefined" },
  { given: 1, shown: "in 1." },
  { given: { value: 1, parts: { a: null } }, shown: "parts is wrong in { value: 1, parts: { a: null } }" },
  { given: { value: 2e18 }, shown: "between -1e18 and 1e18" },
  { given: { value: 1, parts: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [i, i])) }, shown: "256 parts" },
  { given: { value: 1, parts: 3 }, shown: "parts is wrong" },
  { given: { value: 1, explanation: 3 }, shown: "explanation is wrong" },
])("garbage is no score: $given", async ({ given, shown }) => {
  const error = errorOf(await scorerOf(() => given as unknown as RewardScore).score(input, never));
  expect(error.code).toBe("INVALID_REWARD");
  expect(error.message).toContain('Reward "r" returned no score');
  expect(error.message).toContain(shown);
});

test("what is called off fails as aborted, running or queued", async () => {
  const reward: Reward = { name: "r", cost: "sandbox", score: () => new Promise(() => {}) };
  const scorer = createScorer({ reward, limits: { sandbox: { concurrency: 1 } }, clock });
  const stop = new AbortController();
  const both = [scorer.score(input, stop.signal), scorer.score(input, stop.signal)];
  stop.abort();
  for (const outcome of await Promise.all(both)) expect(errorOf(outcome)).toMatchObject({ code: "ABORTED" });
});

test("a full queue is a failure, not a wait without end", async () => {
  const reward: Reward = { name: "r", cost: "cpu", score: () => new Promise(() => {}) };
  const scorer = createScorer({ reward, limits: { cpu: { concurrency: 1, maxQueued: 0, timeoutMs: 20 } }, clock });
  const first = scorer.score(input, never);
  expect(errorOf(await scorer.score(input, never))).toMatchObject({ code: "QUEUE_FULL" });
  expect(errorOf(await first)).toMatchObject({ code: "REWARD_TIMEOUT" });
});

test("a class that is full does not hold up another", async () => {
  const slow: Reward = { name: "slow", cost: "sandbox", score: () => new Promise(() => {}) };
  const quick: Reward = { name: "quick", cost: "instant", score: () => ({ value: 1 }) };
  const route = routeByDomain({ code: slow, default: quick });
  const scorer = createScorer({ reward: route, limits: { sandbox: { concurrency: 1 } }, clock });
  const stop = new AbortController();
  const stuck = [1, 2].map(() => scorer.score(rewardInput("", null, { domain: "code" }), stop.signal));
  expect(await scorer.score(input, never)).toMatchObject({ kind: "scored" });
  stop.abort();
  await Promise.all(stuck);
});

test("an unknown domain is a failure of its trajectory", async () => {
  const route = routeByDomain({ math: { name: "m", cost: "instant", score: () => ({ value: 1 }) } });
  const outcome = await createScorer({ reward: route, clock }).score(input, never);
  expect(errorOf(outcome)).toMatchObject({ code: "UNKNOWN_DOMAIN" });
});

test("closing calls off what runs and closes each reward once", async () => {
  let numClosed = 0;
  const reward: Reward = {
    name: "r",
    cost: "cpu",
    score: () => new Promise(() => {}),
    close: async () => void numClosed++,
  };
  const scorer = createScorer({ reward: routeByDomain({ a: reward, default: reward }), clock });
  const running = scorer.score(input, never);
  await scorer.close();
  expect(errorOf(await running)).toMatchObject({ code: "ABORTED" });
  expect(errorOf(await scorer.score(input, never))).toMatchObject({ code: "ABORTED" });
  expect(numClosed).toBe(1);
});

test("a reward written as a class keeps its this", async () => {
  class Half {
    readonly name = "half";
    readonly cost = "instant";
    readonly value = 0.5;
    score(_: RewardInput) {
      return { value: this.value };
    }
  }
  expect(await createScorer({ reward: new Half(), clock }).score(input, never)).toMatchObject({ score: 0.5 });
});

test("with a tenth each of throws, hangs and garbage, every trajectory has its own outcome and no zero is made up", async () => {
  const faults = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 200, maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(faults, fc.constantFrom("instant", "cpu", "sandbox", "network"), async (plan, cost) => {
      let [running, most] = [0, 0];
      const reward: Reward = {
        name: "faulty",
        cost,
        score: async ({ reply }, signal) => {
          most = Math.max(most, ++running);
          signal.addEventListener("abort", () => running--, { once: true });
          const fault = plan[Number(reply)];
          if (fault === 0) throw new Error("thrown");
          if (fault === 1) return new Promise<never>(() => {});
          if (fault === 2) return { value: Number.NaN };
          await Promise.resolve();
          return { value: 1 + Number(reply) };
        },
      };
      const scorer = createScorer({ reward, limits: { [cost]: { concurrency: 8, timeoutMs: 5 } }, clock });
      const outcomes = await Promise.all(plan.map((_, i) => scorer.score(rewardInput(`${i}`), never)));
      const codes = ["REWARD_FAILED", "REWARD_TIMEOUT", "INVALID_REWARD"];
      outcomes.forEach((outcome, i) => {
        const expected = codes[plan[i]!];
        if (expected === undefined) expect(outcome).toMatchObject({ kind: "scored", score: 1 + i });
        else expect(errorOf(outcome)).toMatchObject({ code: expected, details: { reward: "faulty" } });
      });
      expect(most).toBeLessThanOrEqual(8);
      expect(running).toBe(0);
    }),
    { numRuns: 12 },
  );
});

test("a controller that is given stops the reward, in place of a signal for it alone", async () => {
  const told: AbortSignal[] = [];
  const reward: Reward = {
    name: "slow",
    cost: "cpu",
    score: async (_, signal) => {
      told.push(signal);
      return { value: 1 };
    },
  };
  const scorer = createScorer({ reward, clock: () => 0 });
  const [own, stop] = [new AbortController(), new AbortController()];
  await scorer.score(input, own.signal);
  await scorer.score(input, stop.signal, stop);
  // What a reward has left behind is told to stop in both cases; a signal without its controller stays its caller's.
  expect(told.map(({ aborted }) => aborted)).toEqual([true, true]);
  expect(told[1]).toBe(stop.signal);
  expect(own.signal.aborted).toBe(false);
});
