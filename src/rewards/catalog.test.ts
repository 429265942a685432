import { expect, test } from "vitest";
import { never, rewardInput } from "../../test/rewards/reward-input.ts";
import { buildReward, buildRoute, type RewardChoice, rewards } from "./catalog.ts";

test("every entry stands under its own type", () => {
  for (const [type, definition] of Object.entries(rewards)) expect(definition.type).toBe(type);
});

test.each([
  { choice: { type: "chioce" }, message: 'reward.type must name a reward: got "chioce". Did you mean "choice"?' },
  { choice: { type: "toString" }, message: 'got "toString"' },
  {
    choice: { type: "choice", leters: "AB" },
    message: "reward.leters is not an option. Did you mean letters? Known are: letters",
  },
  { choice: { type: "choice", letters: 3 }, message: "reward.letters is not valid: got 3" },
  { choice: { type: "judge" }, message: "reward.mode must be one of rubric, reference, pairwise, word: got nothing" },
  {
    choice: { type: "length", curve: { shape: "target", target: 5, tolerence: 3 } },
    message: "reward.curve.tolerence is not an option. Did you mean tolerance?",
  },
  {
    choice: { type: "length", curve: { shape: "cosine", maxTokens: 5, shrot: 3 } },
    message: "reward.curve.shrot is not an option. Did you mean short?",
  },
  {
    choice: { type: "combine", mode: "weighted", parts: [{ reward: { type: "exact", afte: "" } }] },
    message: "reward.parts.0.reward.afte is not an option. Did you mean after?",
  },
  {
    choice: { type: "combine", mode: "weighted", parts: [{ reward: { type: "exact" }, wieght: 1 }] },
    message: "reward.parts.0.wieght is not an option. Did you mean weight?",
  },
  { choice: {}, message: "reward.type is missing" },
])("a wrong choice is told by its key: $choice", async ({ choice, message }) => {
  await expect(buildReward(choice as unknown as RewardChoice)).rejects.toThrow(message);
});

test("a combination is built from its parts, each under its name", async () => {
  const reward = await buildReward({
    type: "combine",
    mode: "gate",
    parts: [
      { reward: { type: "format", tags: ["think"] }, weight: 0 },
      { reward: { type: "contains", name: "capital" }, threshold: 0 },
    ],
  });
  expect(reward).toMatchObject({ name: "total", cost: "instant" });
  const score = (reply: string) => reward.score(rewardInput(reply, "Paris"), never);
  expect(await score("<think>hm</think>Paris")).toMatchObject({ value: 1, parts: { format: 1, capital: 1 } });
  expect(await score("Paris")).toMatchObject({ value: 0, parts: { format: 0 } });
});

test("a route is built by domain, and an error names the domain", async () => {
  const route = await buildRoute({ math: { type: "exact" }, default: { type: "choice" } });
  expect(route.rewards.map(({ name }) => name)).toEqual(["exact", "choice"]);
  await expect(buildRoute({ math: { type: "exakt" } as unknown as RewardChoice })).rejects.toThrow(
    'rewards.math.type must name a reward: got "exakt". Did you mean "exact"?',
  );
});
