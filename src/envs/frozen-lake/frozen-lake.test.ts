import { expect, test } from "vitest";
import { describeTextEnvContract } from "../../../test/contracts/text-env.contract.ts";
import { Random } from "../../random/random.ts";
import { oracleAgent, playEpisode, randomAgent } from "../play-episode.ts";
import type { EnvStep } from "../text-env.ts";
import { FrozenLakeEnv, frozenLake, frozenLakeOptions } from "./frozen-lake.ts";
import type { LakeMap } from "./lake-map.ts";
import { compactWords } from "./lake-text.ts";
import { slipperyValues } from "./slippery-values.ts";

const build = (options: Record<string, unknown> = {}) => frozenLake.build(frozenLakeOptions.parse(options));
const prompt = (seed: number) => build().makePrompt!(seed);

/** P O / _ G: down, then right. */
const small: LakeMap = { size: 2, isHole: [false, true, false, false], start: 0, goal: 3 };
const envOf = (map: LakeMap, options: Record<string, unknown> = {}, seed = 0) =>
  new FrozenLakeEnv(map, frozenLakeOptions.parse(options), new Random(seed));
const say = (env: FrozenLakeEnv, word: string): EnvStep => env.step({ text: `<answer>${word}</answer>`, isCut: false });

describeTextEnvContract("frozen-lake", () => build(), { isOracleSure: true, needsOracle: true });
describeTextEnvContract("frozen-lake, slippery and compact", () => build({ isSlippery: true, prompt: "compact" }));

test("the goal pays 1 and ends the episode as a success", () => {
  const env = envOf(small);
  expect(say(env, "down")).toMatchObject({
    kind: "continues",
    reward: 0,
    metrics: { valid_action: 1, effective_action: 1 },
    observation: { messages: [{ role: "user", content: "_O\nPG" }], stateKey: "_O\nPG" },
  });
  expect(say(env, " RIGHT ")).toMatchObject({ kind: "terminated", reward: 1, metrics: { success: 1 } });
  expect(env.render()).toBe("_O\n_√");
});

test("a hole pays nothing and ends the episode as a failure", () => {
  const env = envOf(small);
  expect(say(env, "Right")).toMatchObject({
    kind: "terminated",
    reward: 0,
    metrics: { success: 0, effective_action: 1 },
  });
  expect(env.render()).toBe("_X\n_G");
});

test("a move into the shore is valid and has no effect", () => {
  const env = envOf(small);
  expect(say(env, "Up")).toMatchObject({ reward: 0, metrics: { valid_action: 1, effective_action: 0 } });
});

test("a reply that cannot be read costs the penalty, leaves the state, and says so", () => {
  const env = envOf(small, { formatPenalty: 0.25 });
  const before = env.start().observation.stateKey;
  const step = env.step({ text: "I go right", isCut: false });
  expect(step).toMatchObject({ kind: "continues", reward: -0.25, metrics: { valid_action: 0, effective_action: 0 } });
  expect(step.observation?.stateKey).toBe(before);
  expect(step.observation?.messages[0]?.content).toMatch(/no action between <answer> and <\/answer>/);
});

test("maxTurns cuts the episode off, also when nothing was read", () => {
  const env = envOf(small, { maxTurns: 2 });
  expect(say(env, "Up").kind).toBe("continues");
  expect(say(env, "nonsense")).toMatchObject({ kind: "truncated", reward: -0.1, metrics: { success: 0 } });
  expect(() => say(env, "Down")).toThrow(/after its episode had ended/);
});

test("the map comes from the prompt's seed alone", async () => {
  const grid = async (seed: number, episode: number) => (await build().makeEnv(prompt(seed), episode)).render?.();
  expect(await grid(3, 1)).toBe(await grid(3, 2));
  expect(await grid(3, 1)).not.toBe(await grid(4, 1));
});

test.each([
  { size: 4 },
  { size: 4, holeRate: 0.5 },
  { size: 8, placement: "corners", maxTurns: 64 },
  { size: 4, prompt: "compact", maxTurns: 8 },
])("the oracle wins on every one of 500 maps with %j", async (options) => {
  const { makeEnv, makePrompt } = build(options);
  for (let seed = 0; seed < 500; seed++) {
    const { metrics, totalReward } = await playEpisode(await makeEnv(makePrompt!(seed), seed), oracleAgent());
    expect({ totalReward, ...metrics }).toEqual({ totalReward: 1, success: 1, valid_action: 1, effective_action: 1 });
  }
});

test("random play of eight moves wins about one game in five", async () => {
  const { makeEnv, makePrompt } = build({ maxTurns: 8 });
  let numWon = 0;
  for (let seed = 0; seed < 2000; seed++) {
    numWon += (await playEpisode(await makeEnv(makePrompt!(seed), seed), randomAgent(seed))).totalReward;
  }
  expect(numWon / 2000).toBeGreaterThan(0.16);
  expect(numWon / 2000).toBeLessThan(0.24);
});

test("on slippery ice each of three directions comes one time in three, and the one behind never", () => {
  const open: LakeMap = { size: 3, isHole: new Array<boolean>(9).fill(false), start: 4, goal: 0 };
  for (const [word, expected] of Object.entries({
    Left: [3, 7, 1],
    Down: [7, 3, 5],
    Right: [5, 7, 1],
    Up: [1, 5, 3],
  })) {
    const counts = new Map<number, number>();
    for (let seed = 0; seed < 3000; seed++) {
      const env = envOf(open, { isSlippery: true }, seed);
      say(env, word);
      const cell = env.render().replaceAll("\n", "").indexOf("P");
      counts.set(cell, (counts.get(cell) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual(expected.toSorted());
    const chiSquare = [...counts.values()].reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(13.8); // 2 degrees of freedom, p 0.001
  }
});

test("on slippery ice the oracle wins as often as its values say", async () => {
  const options = { isSlippery: true, maxTurns: 40 };
  const map: LakeMap = {
    size: 4,
    isHole: [...["____", "_O_O", "___O", "O___"].join("")].map((cell) => cell === "O"),
    start: 0,
    goal: 15,
  };
  const expected = slipperyValues(map, 40)[40]![0]!;
  let numWon = 0;
  for (let seed = 0; seed < 2000; seed++) {
    numWon += (await playEpisode(envOf(map, options, seed), oracleAgent())).totalReward;
  }
  const deviation = Math.sqrt((expected * (1 - expected)) / 2000);
  expect(Math.abs(numWon / 2000 - expected)).toBeLessThan(3.5 * deviation);
});

test("slips of episodes with different seeds differ, on the same map", async () => {
  const { makeEnv } = build({ isSlippery: true, holeRate: 0, size: 8 });
  const games = await Promise.all(
    [1, 2, 3].map(async (seed) => playEpisode(await makeEnv(prompt(5), seed), randomAgent(9), { maxTurns: 10 })),
  );
  expect(new Set(games.map(({ transcript }) => JSON.stringify(transcript))).size).toBe(3);
});

test("a compact game on 4x4 is 19 words of grid and a reply of three, all of them in compactWords", async () => {
  const env = await build({ prompt: "compact" }).makeEnv(prompt(7), 0);
  const { opening, turns } = await playEpisode(env, oracleAgent());
  expect(opening.instructions).toEqual([]);
  const words = new Set(compactWords());
  expect(words.size).toBe(13);
  for (const { content } of opening.observation.messages) {
    const parts = String(content).replaceAll("\n", " \n ").split(/ +/);
    expect(parts).toHaveLength(19);
    expect(parts.filter((part) => !words.has(part))).toEqual([]);
  }
  const reply = turns[0]!.reply.split(" ");
  expect(reply).toHaveLength(3);
  expect(reply.filter((part) => !words.has(part))).toEqual([]);
});

test("symbols, tags and instructions can be replaced", () => {
  const symbols = { player: "me", ice: "i", hole: "h", goal: "g", playerInHole: "x", playerOnGoal: "w" };
  const options = { symbols, answerTags: { open: "[", close: "]" }, instructions: "Walk.", prompt: "compact" };
  const env = envOf(small, options);
  expect(env.start()).toEqual({
    instructions: [{ role: "system", content: "Walk." }],
    observation: { messages: [{ role: "user", content: "me h\ni g" }], stateKey: "me h\ni g" },
  });
  expect(env.oracleReply()).toBe("[ Down ]");
  expect(env.step({ text: "[down]", isCut: false }).metrics.valid_action).toBe(1);
  expect(() => envOf(small, { symbols: { ...symbols, ice: "h" } })).toThrow(/differ/);
});

test("surroundings show what left, down, right and up lead to, the player's own cell at the shore", () => {
  const compact = envOf(small, { prompt: "compact", showsSurroundings: true });
  // small is "P O / _ G".
  expect(compact.start().observation).toEqual({
    messages: [{ role: "user", content: "P O\n_ G\nP _ O P" }],
    stateKey: "P O\n_ G",
  });
  const [rules] = envOf(small, { showsSurroundings: true }).start().instructions;
  expect(rules?.content).toContain("The last line shows what lies in each direction: Left, Down, Right, Up.");
  expect(String(envOf(small, {}).start().instructions[0]?.content)).not.toContain("last line");
});

test("without tags the reply is the action, and every action ends it", () => {
  const factory = build({ answerTags: null, prompt: "compact" });
  expect(factory.words?.endWords).toEqual(["Left", "Down", "Right", "Up"]);
  expect(factory.words?.words).not.toContain("<answer>");
  const env = envOf(small, { answerTags: null });
  expect(env.oracleReply()).toBe("Down");
  expect(env.step({ text: " down", isCut: false }).metrics.valid_action).toBe(1);
  expect(env.step({ text: "go right", isCut: false }).metrics.valid_action).toBe(0);
});
