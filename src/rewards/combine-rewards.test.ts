import { expect, test } from "vitest";
import { never, rewardInput } from "../../test/rewards/reward-input.ts";
import { combineRewards, highestCost } from "./combine-rewards.ts";
import type { CostClass, Reward, RewardScore } from "./reward.ts";

function constant(name: string, value: number, cost: CostClass = "instant", score: Partial<RewardScore> = {}) {
  const calls: AbortSignal[] = [];
  const reward: Reward = {
    name,
    cost,
    score: (_, signal) => {
      calls.push(signal);
      return { value, ...score };
    },
  };
  return { reward, calls };
}

const input = rewardInput("so");

test("weighted is the sum of weight x value, with the parts by name", async () => {
  const a = constant("a", 1, "instant", { parts: { extracted: 1 }, explanation: "right" });
  const b = constant("b", 0.5);
  const both = combineRewards({
    mode: "weighted",
    parts: [
      { reward: a.reward, weight: 2 },
      { reward: b.reward, weight: -1 },
    ],
  });
  expect(await both.score(input, never)).toEqual({
    value: 1.5,
    parts: { a: 1, "a/extracted": 1, b: 0.5 },
    explanation: "a 1 (right); b 0.5",
  });
});

test("product multiplies, and clip cuts", async () => {
  const parts = [{ reward: constant("a", 3).reward }, { reward: constant("b", 0.5).reward, weight: 4 }];
  expect(await combineRewards({ mode: "product", parts }).score(input, never)).toMatchObject({ value: 6 });
  expect(await combineRewards({ mode: "product", parts, clip: [-1, 2] }).score(input, never)).toMatchObject({
    value: 2,
  });
  expect(await combineRewards({ mode: "weighted", parts, clip: [7, 9] }).score(input, never)).toMatchObject({
    value: 7,
  });
});

test("a gate that is closed gives `closed` and spares the parts behind it", async () => {
  const [cheap, dear] = [constant("cheap", 0.4), constant("dear", 1, "network")];
  const gate = combineRewards({
    mode: "gate",
    closed: -0.5,
    parts: [
      { reward: cheap.reward, threshold: 0.5 },
      { reward: dear.reward, threshold: 0 },
    ],
  });
  expect(await gate.score(input, never)).toMatchObject({ value: -0.5, parts: { cheap: 0.4 } });
  expect(dear.calls).toEqual([]);
});

test("an open gate gives the weighted sum; the threshold itself opens it", async () => {
  const parts = [
    { reward: constant("a", 0.5).reward, threshold: 0.5, weight: 0 },
    { reward: constant("b", 0.8).reward, threshold: 0.1, weight: 10 },
  ];
  expect(await combineRewards({ mode: "gate", parts }).score(input, never)).toMatchObject({ value: 8 });
  // Where the last part fails its threshold the gate is closed as well.
  const last = [{ reward: constant("a", 1).reward }, { reward: constant("b", 0.8).reward }];
  expect(await combineRewards({ mode: "gate", parts: last }).score(input, never)).toMatchObject({ value: 0 });
});

test.each(["weighted", "product", "gate"] as const)("a part that fails makes %s fail, by its name", async (mode) => {
  const broken: Reward = {
    name: "broken",
    cost: "cpu",
    score: () => {
      throw new Error("no idea");
    },
  };
  const combined = combineRewards({ mode, parts: [{ reward: constant("a", 1).reward }, { reward: broken }] });
  await expect(combined.score(input, never)).rejects.toThrow('Reward "broken" failed: no idea');
});

test("a part that returns no number makes the whole fail", async () => {
  const parts = [{ reward: constant("odd", Number.NaN).reward }];
  await expect(combineRewards({ mode: "weighted", parts }).score(input, never)).rejects.toThrow(
    'Reward "odd" returned no score',
  );
});

test("when one part fails the others are told to stop", async () => {
  let told: AbortSignal | undefined;
  const slow: Reward = {
    name: "slow",
    cost: "network",
    score: (_, signal) => {
      told = signal;
      return new Promise(() => {});
    },
  };
  const broken: Reward = { name: "broken", cost: "instant", score: () => Promise.reject(new Error("no")) };
  const combined = combineRewards({ mode: "weighted", parts: [{ reward: slow }, { reward: broken }] });
  await expect(combined.score(input, never)).rejects.toThrow("no");
  expect(told?.aborted).toBe(true);
});

test("the cost is that of the most expensive part", () => {
  expect(highestCost(["instant", "sandbox", "cpu"])).toBe("sandbox");
  expect(highestCost(["instant"])).toBe("instant");
});

test("no parts and two of one name are refused", () => {
  expect(() => combineRewards({ mode: "weighted", parts: [] })).toThrow('Reward "total" combines no parts');
  const parts = [{ reward: constant("a", 1).reward }, { reward: constant("a", 2).reward }];
  expect(() => combineRewards({ mode: "weighted", parts })).toThrow('two parts with the name "a"');
});

test("closing closes all parts", async () => {
  const closed: string[] = [];
  const part = (name: string) => ({
    reward: { ...constant(name, 1).reward, close: async () => void closed.push(name) },
  });
  await combineRewards({ mode: "weighted", parts: [part("a"), part("b")] }).close?.();
  expect(closed).toEqual(["a", "b"]);
});
