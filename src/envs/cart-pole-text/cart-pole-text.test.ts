import { expect, test } from "vitest";
import { describeTextEnvContract } from "../../../test/contracts/text-env.contract.ts";
import { oracleAgent, playEpisode, randomAgent } from "../play-episode.ts";
import { CartPoleTextEnv, cartPoleText, cartPoleTextOptions } from "./cart-pole-text.ts";

const build = (options: Record<string, unknown> = {}) => cartPoleText.build(cartPoleTextOptions.parse(options));
const envAt = (state: readonly number[], options: Record<string, unknown> = {}) =>
  new CartPoleTextEnv(Float64Array.from(state), cartPoleTextOptions.parse(options));
const say = (env: CartPoleTextEnv, word: string) => env.step({ text: `<answer>${word}</answer>`, isCut: false });
const told = (env: CartPoleTextEnv) => env.start().observation.messages[0]?.content;

describeTextEnvContract("cart-pole-text", () => build(), { isOracleSure: true, needsOracle: true });
describeTextEnvContract("cart-pole-text, compact", () => build({ prompt: "compact", answerTags: null, numLevels: 3 }), {
  isOracleSure: true,
  needsOracle: true,
});

test("quantities are told as shares of their largest values, rounded, and no more than that", () => {
  // 0.6 / 2.4 * 4 = 1, -1 / 2 * 4 = -2, 0.0525 / 0.21 * 4 = 1, 9 is beyond 2.
  expect(told(envAt([0.6, -1, 0.0525, 9], { numLevels: 4 }))).toBe("position 1, velocity -2, angle 1, spin 4");
  expect(told(envAt([-0.01, 0, 0, 0]))).toBe("position 0, velocity 0, angle 0, spin 0");
});

test("a push moves the cart by the equations of cart-pole and pays 1", () => {
  const env = envAt([0, 0, 0, 0], { numLevels: 100 });
  // At rest, force 10 on 1.1 kg: spin changes by -(10 / 1.1) / (0.5 (4/3 - 0.1 / 1.1)) * 0.02 = -0.2927 and velocity by
  // (10 / 1.1 + 0.05 * 14.634 / 1.1) * 0.02 = 0.1951. Position and angle follow one turn later.
  const step = say(env, "right");
  expect(step).toMatchObject({ kind: "continues", reward: 1, metrics: { valid_action: 1 } });
  expect(env.render()).toBe("position 0, velocity 10, angle 0, spin -15");
  say(env, "Left");
  expect(env.render()).toBe("position 0, velocity 0, angle -3, spin 0");
});

test("the episode ends without success when the pole falls or the cart leaves the track", () => {
  const fallen = say(envAt([0, 0, 0.2, 2]), "Left");
  expect(fallen).toMatchObject({ kind: "terminated", reward: 1, metrics: { success: 0 } });
  expect(say(envAt([2.39, 2, 0, 0]), "Right")).toMatchObject({ kind: "terminated", metrics: { success: 0 } });
});

test("a pole that stands after maxTurns is a success, and then the episode is over", () => {
  const env = envAt([0, 0, 0, 0], { maxTurns: 2 });
  say(env, "Left");
  expect(say(env, "Right")).toMatchObject({ kind: "truncated", metrics: { success: 1 } });
  expect(() => say(env, "Left")).toThrow(/after its episode had ended/);
});

test("a reply that cannot be read lets no time pass, costs the penalty and leaves no success", () => {
  const env = envAt([0, 0, 0.1, 0], { formatPenalty: 0.5, maxTurns: 2 });
  const before = env.render();
  const step = env.step({ text: "Right", isCut: false });
  expect(step).toMatchObject({ kind: "continues", reward: -0.5, metrics: { valid_action: 0 } });
  expect(env.render()).toBe(before);
  expect(step.observation?.messages[0]?.content).toMatch(/^Your last reply had no action .*\nposition 0/);
  expect(say(env, "Right")).toMatchObject({ kind: "truncated", metrics: { success: 0 } });
});

test("compact prompts are the four numbers, in words that the tokenizer is told", () => {
  const options = { prompt: "compact", answerTags: null, numLevels: 2 };
  const env = envAt([1.2, 0, -0.21, 0], options);
  expect(env.start()).toMatchObject({ instructions: [], observation: { messages: [{ content: "1 0 -2 0" }] } });
  expect(build(options).words).toEqual({
    words: ["-2", "-1", "0", "1", "2", "Left", "Right"],
    endWords: ["Left", "Right"],
  });
  expect(build()).not.toHaveProperty("words");
});

test("random play lasts about 22 turns, the oracle holds the pole for 500", async () => {
  const { makeEnv, makePrompt } = build({ maxTurns: 500 });
  const play = async (seed: number) => playEpisode(await makeEnv(makePrompt!(seed), 0), randomAgent(seed));
  const lengths = await Promise.all(Array.from({ length: 400 }, async (_, seed) => (await play(seed)).turns.length));
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  expect(mean).toBeGreaterThan(20);
  expect(mean).toBeLessThan(25);
  for (let seed = 0; seed < 20; seed++) {
    const { metrics, totalReward } = await playEpisode(await makeEnv(makePrompt!(seed), 0), oracleAgent());
    expect([metrics.success, totalReward]).toEqual([1, 500]);
  }
});
