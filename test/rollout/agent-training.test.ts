/**
 * Agents as people have them, trained without a change: written with the `openai` package and with the AI SDK, they
 * talk to the server in front of the engine, and their episodes go through scheduler, sample builder, trainer and
 * weight sync.
 */
import { randomUUID } from "node:crypto";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type ModelMessage } from "ai";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { ChatFormat } from "../../src/chat/conversation.ts";
import { loadTokenizer } from "../../src/chat/tokenizer/load-tokenizer.ts";
import { buildSamples } from "../../src/experience/sample-builder.ts";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { TrajectoryGroup } from "../../src/flow/trajectory.ts";
import { startThreadedEngine } from "../../src/generation/local/threaded-engine.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { runRolloutLoop } from "../../src/loops/rollout-loop.ts";
import type { AgentCall, RunAgent } from "../../src/rollout/agent-call.ts";
import { createAgentEpisodes } from "../../src/rollout/agent-episode.ts";
import { RolloutScheduler } from "../../src/rollout/rollout-scheduler.ts";
import { startThreadedTrainer } from "../../src/training/threaded-trainer.ts";
import { trainingOptions } from "../../src/training/trainer-options.ts";
import { createSharedMemorySync } from "../../src/weight-sync/shared-memory-sync.ts";
import { promptOf } from "../experience/groups.ts";

const TINY = "fixtures/hf-tiny/qwen2";
const TOKENIZER = "fixtures/tokenizer";
const QUESTIONS = ["Say a", "Go on", "And b"];
const clock = () => performance.now();

/** How many of the characters are small letters: what a random model does half by chance, so that rewards differ. */
function letterShare(texts: readonly string[]): number {
  const text = texts.join("");
  return text.length === 0 ? 0 : [...text].filter((one) => /[a-z]/.test(one)).length / text.length;
}

/** Asks three times in one conversation, with the AI SDK. */
const aiSdkAgent: RunAgent = async (_, { baseURL, apiKey, seed, signal }) => {
  const model = createOpenAICompatible({ name: "reroll", baseURL, apiKey })("tiny");
  const messages: ModelMessage[] = [];
  const texts: string[] = [];
  for (const [turn, content] of QUESTIONS.entries()) {
    messages.push({ role: "user", content });
    const settings = { maxOutputTokens: 12, temperature: 1, seed: seed + turn, maxRetries: 0 };
    const { text, response } = await generateText({ model, messages, ...settings, abortSignal: signal });
    messages.push(...response.messages);
    texts.push(text);
  }
  return letterShare(texts);
};

/** The same, streamed with the openai package; it posts its reward. */
const openAiAgent: RunAgent = async (_, call) => {
  const { baseURL, apiKey, seed, signal } = call;
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [];
  const texts: string[] = [];
  for (const [turn, content] of QUESTIONS.entries()) {
    messages.push({ role: "user", content });
    const settings = { model: "tiny", max_tokens: 12, temperature: 1, seed: seed + turn };
    const stream = await client.chat.completions.create({ ...settings, messages, stream: true }, { signal });
    let text = "";
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
    messages.push({ role: "assistant", content: text });
    texts.push(text);
  }
  await postReward(call, letterShare(texts));
  return undefined;
};

async function postReward({ rewardURL, apiKey }: AgentCall, reward: number): Promise<void> {
  const response = await fetch(rewardURL, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ reward }),
  });
  expect(response.status).toBe(200);
}

async function openWorld(runAgent: RunAgent) {
  const engine = await startThreadedEngine({
    ...{ folder: TINY, tokenizerFolder: TOKENIZER, numThreads: 1 },
    options: { contextLength: 240 },
  });
  const tokenizer = await loadTokenizer(TOKENIZER);
  const ownFaults: unknown[] = [];
  const onError = (cause: unknown) => ownFaults.push(cause);
  const parts = { engine, tokenizer, modelName: "tiny", clock, newId: randomUUID, onError };
  const server = createServer(parts, { apiKey: "secret" });
  const trainer = await startThreadedTrainer({
    ...{ modelFolder: TINY, tokenizerFolder: TOKENIZER, device: "cpu", dtype: "float32", numThreads: 1 },
    ...{ lora: null, reference: null, critic: null, algorithm: { type: "grpo" } },
    training: trainingOptions.parse({ optimizer: { lr: 1e-3 } }),
    length: { numUpdates: 3, updatesPerRolloutStep: 1 },
    ...{ temperature: 1, seed: 1 },
  });
  const runEpisode = createAgentEpisodes({
    ...{ server, url: await server.listen(), apiKey: "secret", runAgent },
    format: new ChatFormat(tokenizer),
    limits: { episodeMs: 30_000, rewardMs: 1000 },
    ...{ newId: randomUUID, clock },
  });
  let next = 0;
  const source = {
    next: async (count: number) => Array.from({ length: count }, () => promptOf(`p${next++}`)),
    position: () => null,
    restore: async () => {},
    close: async () => {},
  };
  const scheduler = new RolloutScheduler({
    ...{ runEpisode, sources: [{ share: 1, source }], seed: 5, clock },
    options: { groupSize: 4, maxInFlight: 16 },
  });
  const close = async () => {
    await scheduler.close();
    await server.close();
    await Promise.all([engine.close(), trainer.close()]);
    expect(ownFaults).toEqual([]);
  };
  return { engine, server, trainer, scheduler, close };
}

describe.each([
  { name: "AI SDK", runAgent: aiSdkAgent },
  { name: "openai", runAgent: openAiAgent },
])("an agent written with $name", ({ runAgent }) => {
  test("is trained: its tokens have the trainer's log-probs, before and after new weights", async () => {
    const { engine, server, trainer, scheduler, close } = await openWorld(runAgent);
    const steps: Metrics[] = [];
    const groups: TrajectoryGroup[] = [];
    try {
      await runRolloutLoop(
        {
          rollout: scheduler,
          experience: {
            build: (taken, version) => {
              groups.push(...taken);
              const { samples, metrics } = buildSamples(taken);
              return { batch: { samples, version }, metrics };
            },
          },
          trainer,
          sync: createSharedMemorySync({ withWeights: (use) => trainer.withWeights(use), engines: [engine], clock }),
          observer: {
            onStep: async (_, metrics) => {
              steps.push(metrics);
              return "continue";
            },
          },
          groupsPerStep: 3,
        },
        { step: 0 },
        { numSteps: 3 },
        new AbortController().signal,
      );
    } finally {
      await close();
    }
    expect(steps).toHaveLength(3);
    for (const metrics of steps) {
      expect(metrics).toMatchObject({
        ...{ "rollout/groups": 3, "rollout/trajectories": 12, "rollout/failed_share": 0, "rollout/turns": 3 },
        ...{ "train/staleness_max": 0, "train/updates": 1 },
      });
      // Three replies of one conversation are one sequence.
      expect(metrics["experience/rows"]).toBe(12 + metrics["experience/forks"]!);
      // An empty reply may be left out of the history by the client, which forks.
      expect(metrics["experience/forks"]).toBeLessThanOrEqual(4);
      expect(metrics["experience/loss_tokens"]).toBeGreaterThan(100);
      expect(metrics["train/sampler_gap_max"]).toBeLessThan(1e-4);
      expect(metrics["train/grad_norm"]).toBeGreaterThan(0);
    }
    const rewards = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward.total));
    expect(new Set(rewards).size).toBeGreaterThan(3);
    const versions = groups.map(({ trajectories }) => trajectories[0]!.turns[0]!.reply.versions[0]);
    expect(versions).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2]);
    expect(server.sessions).toMatchObject({ numOpen: 0, numFinished: 0 });
  });
});
