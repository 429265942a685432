import { expect, test } from "vitest";
import { rewardInput } from "../../test/rewards/reward-input.ts";
import type { Reward } from "./reward.ts";
import { routeByDomain } from "./route-by-domain.ts";

const named = (name: string): Reward => ({ name, cost: "instant", score: () => ({ value: 1 }) });
const promptOf = (domain: string) => rewardInput("", null, { domain }).prompt;

test("the domain chooses, and default takes the rest", () => {
  const [math, rest] = [named("math"), named("rest")];
  const route = routeByDomain({ math, algebra: math, default: rest });
  expect(route.choose(promptOf("math"))).toBe(math);
  expect(route.choose(promptOf("poems"))).toBe(rest);
  expect(route.rewards).toEqual([math, rest]);
});

test("an unknown domain is an error with the known ones", () => {
  const route = routeByDomain({ math: named("math"), code: named("code") });
  expect(() => route.choose(promptOf("maths"))).toThrow(
    'No reward for domain "maths" of prompt "test/0". Rewards are there for: math, code. Nearest: "math".',
  );
  expect(() => route.choose(promptOf("toString"))).toThrow('No reward for domain "toString"');
});
