import { expect, test } from "vitest";
import { guessNumber } from "../../examples/envs/guess-number.ts";
import { oracleAgent, playEpisode, randomAgent } from "./play-episode.ts";
import type { EnvStep, TextEnv } from "./text-env.ts";

/** Counts to three; `half` is told in every second step. */
class Counting implements TextEnv {
  numEnds = 0;
  #count = 0;

  start() {
    const instructions = [{ role: "system", content: "Count." }];
    return { instructions, observation: { messages: [{ role: "user", content: "0" }] } };
  }

  step(): EnvStep {
    const count = ++this.#count;
    const facts = {
      reward: count,
      metrics: { even: Number(count % 2 === 0), ...(count % 2 === 1 ? { odd: count } : {}) },
    };
    if (count === 3) return { kind: "terminated", ...facts };
    return { kind: "continues", ...facts, observation: { messages: [{ role: "user", content: String(count) }] } };
  }

  end() {
    this.numEnds++;
  }
}

test("an episode is told in full: rewards, means of metrics, the conversation", async () => {
  const env = new Counting();
  const episode = await playEpisode(env, (_, observation) => `after ${observation.messages[0]?.content}`);
  expect(episode).toMatchObject({ ending: "terminated", totalReward: 6 });
  expect(episode.turns.map(({ step }) => step.reward)).toEqual([1, 2, 3]);
  expect(episode.metrics).toEqual({ even: 1 / 3, odd: 2 });
  expect(episode.transcript.map(({ content }) => content)).toEqual([
    "Count.",
    "0",
    "after 0",
    "1",
    "after 1",
    "2",
    "after 2",
  ]);
  expect(env.numEnds).toBe(1);
});

test("maxTurns stops an episode that goes on", async () => {
  const env = new Counting();
  expect(await playEpisode(env, () => "go", { maxTurns: 2 })).toMatchObject({ ending: "stopped", totalReward: 3 });
  expect(env.numEnds).toBe(1);
});

test("the environment is ended also when the agent throws or the signal aborts", async () => {
  const env = new Counting();
  await expect(playEpisode(env, () => Promise.reject(new Error("no idea")))).rejects.toThrow("no idea");
  await expect(playEpisode(env, () => "go", { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
  expect(env.numEnds).toBe(2);
});

test("an agent that needs what the environment does not have says so", async () => {
  await expect(playEpisode(new Counting(), oracleAgent())).rejects.toThrow(/has no oracleReply/);
  await expect(playEpisode(new Counting(), randomAgent(1))).rejects.toThrow(/has no randomReply/);
});

test("the same seed plays the same random game, another seed another", async () => {
  const { makeEnv, makePrompt } = guessNumber();
  const play = async (seed: number) => (await playEpisode(await makeEnv(makePrompt!(1), 0), randomAgent(seed))).turns;
  expect(await play(1)).toEqual(await play(1));
  expect(await play(1)).not.toEqual(await play(2));
});
