import { randomUUID } from "node:crypto";
import OpenAI from "openai";
import { afterEach, expect, test } from "vitest";
import { ChatFormat } from "../../src/chat/conversation.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { buildSamples } from "../../src/experience/sample-builder.ts";
import type { Trajectory } from "../../src/flow/trajectory.ts";
import type { AgentCall, RunAgent } from "../../src/rollout/agent-call.ts";
import { type AgentEpisodeParts, createAgentEpisodes } from "../../src/rollout/agent-episode.ts";
import { Gate } from "../../src/rollout/gate.ts";
import { promptOf } from "../experience/groups.ts";
import { MODEL, type RunningServer, type StartOptions, startServer } from "../server/start-server.ts";

const clock = () => performance.now();

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

interface PlayOptions extends Partial<Pick<AgentEpisodeParts, "score">> {
  readonly server?: StartOptions;
  readonly episodeMs?: number;
  readonly signal?: AbortSignal;
}

/** Plays one episode against a scripted model that says "ok" and the number of its call. */
async function play(runAgent: RunAgent, options: PlayOptions = {}): Promise<Trajectory> {
  running ??= await startServer({ reply: (_, index) => `ok ${index}`, clock, ...options.server });
  const { server, url, tokenizer } = running;
  const run = createAgentEpisodes({
    ...{ server, url, runAgent, clock, newId: randomUUID },
    format: new ChatFormat(tokenizer),
    limits: { episodeMs: options.episodeMs ?? 20_000, rewardMs: 1000 },
    ...(options.score && { score: options.score }),
  });
  const task = { id: "3-1", groupId: "3", prompt: promptOf("p3"), sampleIndex: 1, seed: 77, queuedMs: 5 };
  const trajectory = await run(task, { signal: options.signal ?? new AbortController().signal, gate: new Gate() });
  expect(server.sessions).toMatchObject({ numOpen: 0, numFinished: 0 });
  return trajectory;
}

type Messages = OpenAI.Chat.ChatCompletionMessageParam[];

async function ask({ baseURL, apiKey, signal }: Pick<AgentCall, "baseURL" | "apiKey" | "signal">, messages: Messages) {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const { choices } = await client.chat.completions.create({ model: MODEL, messages }, { signal });
  return choices[0]!.message;
}

const user = (content: string) => ({ role: "user", content }) as const;

/** Two turns of one conversation. */
async function talk(call: AgentCall): Promise<void> {
  const first = await ask(call, [user("Hi")]);
  await ask(call, [user("Hi"), first, user("Go on")]);
}

const talkUnscored: RunAgent = async (_, call) => {
  await talk(call);
  return undefined;
};

test("what the model wrote for the agent is the trajectory, with the reward that the agent returned", async () => {
  const trajectory = await play(async (_, call) => {
    await talk(call);
    return 0.75;
  });
  expect(trajectory).toMatchObject({
    ...{ id: "3-1", groupId: "3", sampleIndex: 1, seed: 77, end: { kind: "completed" } },
    reward: { total: 0.75, score: 0.75, parts: {} },
  });
  expect(trajectory.turns.map(({ replyText, finish }) => [replyText, finish])).toEqual([
    ["ok 0", "stop"],
    ["ok 1", "stop"],
  ]);
  expect(trajectory.turns.map(({ messages }) => messages)).toEqual([[user("Hi")], [user("Go on")]]);
  expect(trajectory.turns[1]!.chat).toEqual({ reply: { role: "assistant", content: "ok 1" }, tools: [] });
  const { timings, turns } = trajectory;
  expect(timings.queuedMs).toBe(5);
  expect(timings.generateMs + timings.envMs + timings.rewardMs).toBeLessThanOrEqual(timings.totalMs + 1e-6);
  expect(turns[1]!.startedMs).toBeGreaterThanOrEqual(turns[0]!.startedMs + turns[0]!.generateMs);

  const group = { id: "3", prompt: trajectory.prompt, trajectories: [trajectory] };
  const { samples, metrics } = buildSamples([group]);
  expect([samples.length, metrics["experience/forks"]]).toEqual([1, 0]);
  const [sample] = samples;
  const { tokenizer } = running!;
  expect(tokenizer.decode(sample!.tokenIds.filter((_, i) => sample!.lossMask[i] === 1))).toBe(
    "ok 0<|im_end|>ok 1<|im_end|>",
  );
  expect(sample!.rewards.at(-1)).toBe(0.75);
});

test("an agent that uses the plain base URL names its session in a header", async () => {
  const trajectory = await play(async (_, { baseURL, headers, signal }) => {
    const client = new OpenAI({
      baseURL: baseURL.replace(/\/sessions\/[^/]+/, ""),
      apiKey: "x",
      defaultHeaders: headers,
    });
    await client.chat.completions.create({ model: MODEL, messages: [user("Hi")] }, { signal });
    return 1;
  });
  expect(trajectory.turns).toHaveLength(1);
});

test("an agent that rewrites its history gives forked samples of one trajectory, and the reward lies once, on the last", async () => {
  const trajectory = await play(async (_, call) => {
    await talk(call);
    await ask(call, [user("Something else")]);
    return 2;
  });
  const { samples, metrics } = buildSamples([{ id: "3", prompt: trajectory.prompt, trajectories: [trajectory] }]);
  expect(metrics["experience/forks"]).toBe(1);
  expect(samples.map(({ rewards, turn, trajectory: number }) => [rewards.at(-1), turn, number])).toEqual([
    [0, 0, 0],
    [2, 2, 0],
  ]);
});

test("a reward that is posted counts, and numbers beside it become metrics", async () => {
  const trajectory = await play(async (_, call) => {
    await talk(call);
    await fetch(call.rewardURL, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ reward: -1, metadata: { success: 0, steps: 2, note: "lost" } }),
    });
    return undefined;
  });
  expect(trajectory).toMatchObject({
    end: { kind: "completed" },
    reward: { total: -1 },
    metrics: { success: 0, steps: 2 },
  });
});

test("a reward function scores what the agent leaves unscored", async () => {
  const trajectory = await play(talkUnscored, {
    score: async ({ reply, messages, numReplyTokens }) => ({
      ...{ kind: "scored", score: reply === "ok 1" ? 3 : 0, explanation: "", elapsedMs: 1 },
      parts: { messages: messages.length, tokens: numReplyTokens },
    }),
  });
  // "ok 0" and "ok 1" are four bytes and the end mark each.
  expect(trajectory.reward).toEqual({ total: 3, score: 3, parts: { messages: 4, tokens: 10 } });
});

test("an episode without any reward failed, and so did one whose reward is no number", async () => {
  const missing = await play(talkUnscored);
  expect(missing.end).toMatchObject({ kind: "failed", stage: "reward", error: { code: "REWARD_MISSING" } });
  const broken = await play(async (_, call) => {
    await talk(call);
    return Number.NaN;
  });
  expect(broken.end).toMatchObject({ kind: "failed", stage: "reward", error: { code: "INVALID_REWARD" } });
});

test("a reward function that fails ends the trajectory with its reason", async () => {
  const error = new RerollError("SANDBOX_UNAVAILABLE", "no sandbox");
  const trajectory = await play(talkUnscored, {
    score: async () => ({ kind: "failed", error, elapsedMs: 0 }),
  });
  expect(trajectory).toMatchObject({ end: { kind: "failed", stage: "reward", error }, reward: { total: 0 } });
});

test("an agent that throws is a failed trajectory with the turns that it had", async () => {
  const trajectory = await play(async (_, call) => {
    await talk(call);
    throw new Error("no such tool");
  });
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "environment" });
  expect(trajectory.end.kind === "failed" && trajectory.end.error.message).toBe(
    'The agent of "test" failed: no such tool',
  );
  expect(trajectory.turns).toHaveLength(2);
});

test("where the engine failed, it is to blame and not the agent", async () => {
  const failure = () => new RerollError("OUT_OF_MEMORY", "the device is full");
  const trajectory = await play(
    async (_, call) => {
      await talk(call);
      return 1;
    },
    { server: { failure } },
  );
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "generation", error: { code: "OUT_OF_MEMORY" } });
});

test("an agent that never calls the model is told how to", async () => {
  const trajectory = await play(async () => 1);
  expect(trajectory.end).toMatchObject({ kind: "failed", stage: "environment", error: { code: "AGENT_SILENT" } });
});

test("a reply that a limit cut truncates the trajectory", async () => {
  const trajectory = await play(async (_, { baseURL, apiKey }) => {
    const client = new OpenAI({ baseURL, apiKey });
    await client.chat.completions.create({ model: MODEL, messages: [user("Hi")], max_tokens: 2 });
    return 1;
  });
  expect(trajectory).toMatchObject({ end: { kind: "truncated", limit: "tokens" }, reward: { total: 1 } });
});

test("an agent that takes too long failed, or is scored for what it did where something can score it", async () => {
  let lateCall: Promise<unknown> | undefined;
  const slow: RunAgent = async (_, call) => {
    await talk(call);
    await new Promise<void>((resolve) => call.signal.addEventListener("abort", () => resolve()));
    // It does not mind its signal and goes on.
    lateCall = ask({ ...call, signal: new AbortController().signal }, [user("One more")]);
    return lateCall.then(() => 1);
  };
  const failed = await play(slow, { episodeMs: 300 });
  expect(failed.end).toMatchObject({ kind: "failed", error: { code: "TIMEOUT" } });
  await expect(lateCall).rejects.toMatchObject({ status: 409 });
  const scored = await play(slow, {
    episodeMs: 300,
    score: async ({ isTruncated }) => ({
      kind: "scored",
      score: isTruncated ? 0.5 : 1,
      parts: {},
      explanation: "",
      elapsedMs: 0,
    }),
  });
  expect(scored).toMatchObject({ end: { kind: "truncated", limit: "wall-clock" }, reward: { total: 0.5 } });
  await expect(lateCall).rejects.toMatchObject({ status: 409 });
});

test("an abort from outside ends the agent's call and is no failure", async () => {
  const controller = new AbortController();
  const trajectory = play(
    async (_, call) => {
      await talk(call);
      controller.abort();
      await ask(call, [user("Never answered")]);
      return 1;
    },
    { signal: controller.signal },
  );
  expect(await trajectory).toMatchObject({ end: { kind: "aborted" }, reward: { total: 0 } });
});
