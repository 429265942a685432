import { expect, test } from "vitest";
import { guessNumber } from "../../examples/envs/guess-number.ts";
import { oracleAgent, playEpisode } from "../../src/envs/play-episode.ts";
import { describeTextEnvContract } from "../contracts/text-env.contract.ts";

describeTextEnvContract("guess-number", () => guessNumber(), { isOracleSure: true, needsOracle: true });

test("halving the range finds each of the 100 numbers in seven guesses", async () => {
  const { makeEnv, makePrompt } = guessNumber();
  const episodes = await Promise.all(
    Array.from({ length: 300 }, async (_, seed) => playEpisode(await makeEnv(makePrompt!(seed), 0), oracleAgent())),
  );
  expect(episodes.every(({ totalReward, turns }) => totalReward === 1 && turns.length <= 7)).toBe(true);
});
