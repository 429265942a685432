/** An engine whose replies cost nothing: when a whole rollout has been asked for, it answers all of it in one turn, from a text that it was given. */

import { tokenArrays } from "../src/flow/sampled-tokens.ts";
import type { EngineStatus } from "../src/generation/engine.ts";
import type { Generation } from "../src/generation/generate.ts";
import { engineLine } from "../src/generation/local/engine-host.ts";
import { hostInThread } from "../src/workers/host-in-thread.ts";
import { type MarkMemory, note } from "./step-marks.ts";

export interface ScriptedEngineSource {
  readonly numReplies: number;
  readonly numTokens: number;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Tokens of a long text, of which replies are pieces. */
  readonly text: Int32Array;
  readonly marks: MarkMemory;
}

await hostInThread((source: ScriptedEngineSource) => {
  const { numReplies, numTokens, contextLength, vocabSize, text, marks } = source;
  let version = 0;
  let asked: ((generation: Generation) => void)[] = [];
  let numAnswered = 0;
  const counters = { requests: 0, finished: 0, aborted: 0, failed: 0 };
  const status = (): EngineStatus => ({
    ...{ version, isPaused: false, queuedRequests: 0, runningRequests: asked.length, maxQueuedRequests: 16_384 },
    ...{ contextLength, cacheUsage: 0, memoryBytes: 0, peakBytes: 0 },
    counters: { ...counters, prefilledTokens: 0, cachedTokens: 0, generatedTokens: 0, steps: 0 },
  });
  const reply = (): Generation => {
    const tokens = tokenArrays(numTokens);
    const start = (97 * numAnswered++) % (text.length - numTokens);
    tokens.tokenIds.set(text.subarray(start, start + numTokens));
    for (let i = 0; i < numTokens; i++) tokens.samplerLogprobs[i] = -1 / (1 + (i % 7));
    tokens.drawLogprobs.set(tokens.samplerLogprobs);
    tokens.modelLogprobs.set(tokens.samplerLogprobs);
    tokens.versions.fill(version);
    tokens.cacheVersions.fill(version);
    const usage = { promptTokens: 1, cachedTokens: 0, generatedTokens: numTokens };
    return { ...tokens, finish: { kind: "length", limit: "max-tokens" }, usage };
  };
  const answerAll = () => {
    const waiting = asked;
    asked = [];
    const replies = waiting.map(reply);
    note(marks, "repliesSent");
    for (const [i, resolve] of waiting.entries()) resolve(replies[i]!);
  };
  const take = async (next: number) => {
    version = next;
  };
  return {
    describe: async () => ({ status: status(), limits: { vocabSize, contextLength } }),
    watch: () => new Promise<void>(() => {}),
    generate: () =>
      new Promise<Generation>((resolve) => {
        if (asked.length === 0) note(marks, "firstRequest");
        if (asked.push(resolve) < numReplies) return;
        note(marks, "lastRequest");
        setImmediate(answerAll);
      }),
    shareWeights: take,
    renewWeights: take,
    hold: async () => {},
    release: async () => {},
    abortAll: async () => {},
  };
}, engineLine(setImmediate));
