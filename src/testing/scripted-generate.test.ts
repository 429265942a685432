import { expect, test } from "vitest";
import { loadTokenizer } from "../chat/tokenizer/load-tokenizer.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { SampledTokens } from "../generation/generate.ts";
import { createScriptedEngine } from "./scripted-generate.ts";

const prompt = [104, 105];

test("a scripted reply comes token by token and ends with the first stop id", async () => {
  const engine = createScriptedEngine({ reply: () => ({ tokenIds: [65, 66] }) });
  const seen: number[][] = [];
  const { tokenIds, finish, usage } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 10, stopIds: [258] },
    onTokens: (tokens: SampledTokens) => seen.push([...tokens.tokenIds]),
  });
  expect([...tokenIds]).toEqual([65, 66, 258]);
  expect(seen).toEqual([[65], [66], [258]]);
  expect(finish).toEqual({ kind: "stop", by: "token", tokenId: 258 });
  expect(usage).toEqual({ promptTokens: 2, cachedTokens: 0, generatedTokens: 3 });
});

test("drawn tokens follow the probabilities that are reported", async () => {
  const engine = createScriptedEngine({ vocabularySize: 4 });
  const counts = [0, 0, 0, 0];
  const logprobs = [0, 0, 0, 0];
  const numDraws = 4000;
  const runs = Array.from({ length: numDraws }, (_, seed) => ({ promptIds: [1], sampling: { maxTokens: 1, seed } }));
  for (const run of runs) {
    const { tokenIds, samplerLogprobs } = await engine.generate(run);
    counts[tokenIds[0]!]!++;
    logprobs[tokenIds[0]!] = samplerLogprobs[0]!;
  }
  const chiSquare = counts.reduce((sum, count, token) => {
    const expected = Math.exp(logprobs[token]!) * numDraws;
    return sum + (count - expected) ** 2 / expected;
  }, 0);
  // 16.3 is the 0.999 quantile for 3 degrees of freedom.
  expect(chiSquare).toBeLessThan(16.3);
});

test("top-k 1 makes the draw certain, and the model's own log-prob stays what it was", async () => {
  const engine = createScriptedEngine();
  const request = { promptIds: prompt, numTopLogprobs: 1 };
  const greedy = await engine.generate({ ...request, sampling: { maxTokens: 5, temperature: 0 } });
  const topOne = await engine.generate({ ...request, sampling: { maxTokens: 5, topK: 1, seed: 3 } });
  expect(topOne.tokenIds).toEqual(greedy.tokenIds);
  expect([...topOne.drawLogprobs]).toEqual([0, 0, 0, 0, 0]);
  expect(topOne.samplerLogprobs).toEqual(topOne.modelLogprobs);
  expect([...topOne.modelLogprobs]).toEqual([...topOne.topLogprobs!].map(([best]) => Math.fround(best!.logprob)));
});

test("a new version marks the tokens that come after it", async () => {
  const engine = createScriptedEngine({ version: 7 });
  const { versions } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 4 },
    onTokens: () => engine.publish(engine.status().version + 1),
  });
  expect([...versions]).toEqual([7, 8, 9, 10]);
});

test("a paused engine draws nothing, takes aborts, and goes on after resume", async () => {
  const engine = createScriptedEngine();
  await engine.pause();
  const aborted = new AbortController();
  const first = engine.generate({ promptIds: prompt, sampling: { maxTokens: 2 }, signal: aborted.signal });
  const second = engine.generate({ promptIds: prompt, sampling: { maxTokens: 2 } });
  aborted.abort();
  expect((await first).finish).toEqual({ kind: "aborted" });
  expect(engine.status()).toMatchObject({ isPaused: true, queuedRequests: 1, runningRequests: 0 });
  engine.resume();
  expect((await second).tokenIds).toHaveLength(2);
});

test("a full queue refuses the one request that finds it full", async () => {
  const engine = createScriptedEngine({ maxRunning: 1, maxQueuedRequests: 2 });
  const request = { promptIds: prompt, sampling: { maxTokens: 1 } };
  const taken = [engine.generate(request), engine.generate(request)];
  await expect(engine.generate(request)).rejects.toMatchObject({ code: "QUEUE_FULL" });
  expect((await Promise.all(taken)).map(({ finish }) => finish.kind)).toEqual(["length", "length"]);
});

test("abortAll ends everything with the tokens so far, and close refuses what comes later", async () => {
  const engine = createScriptedEngine({ beforeStep: async () => {} });
  let tokensSeen = 0;
  const { tokenIds, finish } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 100 },
    onTokens: () => {
      if (++tokensSeen === 3) void engine.abortAll();
    },
  });
  expect([tokenIds.length, finish.kind]).toEqual([3, "aborted"]);
  await engine.close();
  const late = engine.generate({ promptIds: prompt, sampling: { maxTokens: 1 } });
  await expect(late).rejects.toMatchObject({ code: "ENGINE_CLOSED" });
});

test("a session's next turn finds its earlier tokens in the cache, but for the last one drawn", async () => {
  const engine = createScriptedEngine({ reply: () => ({ tokenIds: [1, 2, 3] }) });
  const request = { sampling: { maxTokens: 3 }, sessionId: "a" };
  await engine.generate({ ...request, promptIds: [9, 9] });
  const { usage } = await engine.generate({ ...request, promptIds: [9, 9, 1, 2, 3, 8] });
  expect(usage.cachedTokens).toBe(4);
  const other = await engine.generate({ ...request, promptIds: [9, 8, 1] });
  expect(other.usage.cachedTokens).toBe(0);
});

test("a scripted error ends the reply after its tokens", async () => {
  const error = new RerollError("NON_FINITE", "The model gave NaN.");
  const engine = createScriptedEngine({ reply: () => ({ tokenIds: [5], error }) });
  const { tokenIds, finish } = await engine.generate({ promptIds: prompt, sampling: { maxTokens: 9 } });
  expect([...tokenIds]).toEqual([5]);
  expect(finish).toEqual({ kind: "failed", error });
});

test("a stop string ends the reply with the token that completes it", async () => {
  const source = await loadTokenizer("fixtures/tokenizer");
  const engine = createScriptedEngine({ source, reply: () => ({ tokenIds: source.encode("one END two") }) });
  const { tokenIds, finish } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 20, stopStrings: ["END"] },
  });
  expect(source.decode(tokenIds)).toBe("one END");
  expect(finish).toEqual({ kind: "stop", by: "string", text: "END" });
});
