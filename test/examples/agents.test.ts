/**
 * The agents of examples/agents, each written with the client of a framework: every call is recorded, a conversation with its tool
 * calls is one row, whether it is streamed or not and whatever had to be repeated, and training sees the log-probs of the sampler.
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  generateObject,
  generateText,
  type LanguageModel,
  type ModelMessage,
  Output,
  stepCountIs,
  streamText,
  tool,
} from "ai";
import OpenAI from "openai";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { questions, rewardFor, weatherOf } from "../../examples/agents/weather.ts";
import { ChatFormat } from "../../src/chat/conversation.ts";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { buildSamples } from "../../src/experience/sample-builder.ts";
import type { Prompt } from "../../src/flow/prompt.ts";
import type { Trajectory } from "../../src/flow/trajectory.ts";
import type { AgentCall, RunAgent } from "../../src/rollout/agent-call.ts";
import { createAgentEpisodes } from "../../src/rollout/agent-episode.ts";
import { Gate } from "../../src/rollout/gate.ts";
import { importModule } from "../../src/run/import-module.ts";
import { promptOf } from "../experience/groups.ts";
import { trainSmall } from "../runs/small-run.ts";
import { type RunningServer, startServer } from "../server/start-server.ts";

const folder = fileURLToPath(new URL("../../examples/agents/", import.meta.url));
const hasFrameworks = existsSync(`${folder}frameworks/node_modules`);

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

const toolCall = (city: string) => `<tool_call>\n{"name": "weather", "arguments": {"city": "${city}"}}\n</tool_call>`;

/** A model that asks for both cities in one reply, and then knows. */
function reply(prompt: string): string {
  return prompt.includes("degrees") && prompt.includes("24")
    ? "Rome"
    : `Let me see.\n${toolCall("Rome")}\n${toolCall("Oslo")}`;
}

/** Plays one episode against the scripted model. With `isShaky`, the engine fails at the first call. */
async function play(runAgent: RunAgent, isShaky = false): Promise<Trajectory> {
  const failure = (index: number) =>
    isShaky && index === 0 ? new RerollError("ENGINE_CLOSED", "closed for a moment") : undefined;
  running = await startServer({ reply, failure, server: { acceptsAnyModel: true, retryAfterSeconds: 0 } });
  const { server, url, tokenizer } = running;
  const runEpisode = createAgentEpisodes({
    ...{ server, url, runAgent, clock: () => performance.now(), newId: randomUUID },
    format: new ChatFormat(tokenizer),
    limits: { episodeMs: 40_000, rewardMs: 1000 },
  });
  const { prompt: content, answer } = questions[0]!;
  const prompt = { ...promptOf("p"), messages: [{ role: "user", content }], truth: answer };
  const task = { id: "0-0", groupId: "0", prompt, sampleIndex: 0, seed: 3, queuedMs: 0 };
  return runEpisode(task, { signal: new AbortController().signal, gate: new Gate() });
}

function expectOneRow(trajectory: Trajectory): void {
  expect(trajectory.end).toEqual({ kind: "completed" });
  expect(trajectory.turns.map(({ replyText }) => replyText)).toEqual([reply(""), "Rome"]);
  // The tool's answers are the only messages that are new in the second call.
  expect(trajectory.turns[1]!.messages.map(({ role }) => role)).toEqual(["tool", "tool"]);
  expect(trajectory.turns[0]!.chat).toMatchObject({
    reply: { tool_calls: [{ function: { name: "weather" } }, { function: { name: "weather" } }] },
    tools: [{ function: { name: "weather" } }],
  });
  const { samples, metrics } = buildSamples([{ id: "0", prompt: trajectory.prompt, trajectories: [trajectory] }]);
  expect([samples.length, metrics["experience/forks"]]).toEqual([1, 0]);
  const { tokenIds, lossMask } = samples[0]!;
  const written = tokenIds.filter((_, i) => lossMask[i] === 1);
  expect(running!.tokenizer.decode(written)).toBe(`${reply("")}<|im_end|>Rome<|im_end|>`);
  // 1 for the right city, less what its characters cost: some clients count what was said before the tool calls.
  expect(trajectory.reward.total).toBeGreaterThan(0.98);
}

async function exampleOf(name: string): Promise<Record<string, RunAgent> & { run: Record<string, unknown> }> {
  return (await importModule(`${folder}${name}.ts`)) as Record<string, RunAgent> & { run: Record<string, unknown> };
}

const own = ["openai", "ai-sdk", "anthropic"];
const frameworks = ["frameworks/openai-agents", "frameworks/mastra", "frameworks/langgraph"];

describe.each([...own, ...frameworks])("examples/agents/%s.ts", (name) => {
  const isMissing = frameworks.includes(name) && !hasFrameworks;
  // npm run agents installs the frameworks, which are larger than everything else together.
  test.skipIf(isMissing)("parallel tool calls and the answer are two turns of one row", async () => {
    expectOneRow(await play((await exampleOf(name)).agent!));
  });

  test.skipIf(isMissing)("a call that the client repeats is recorded once", async () => {
    const trajectory = await play((await exampleOf(name)).agent!, true);
    expectOneRow(trajectory);
    expect(running!.engine.status().counters).toMatchObject({ failed: 1 });
  });

  test.skipIf(isMissing)("streamed, it is the same row", async () => {
    const { streamingAgent } = await exampleOf(name);
    expectOneRow(await play(streamingAgent!));
  });

  test.skipIf(isMissing)("trains, with the log-probs of the sampler", async () => {
    const { run } = await exampleOf(name);
    const rollout = { groupsPerStep: 2, groupSize: 3, maxTurns: 8, contextLength: 768, sampling: { maxTokens: 6 } };
    const { metrics } = await trainSmall({ ...run, rollout, engine: { threads: 1 }, loop: { type: "sync", steps: 1 } });
    expect(metrics[0]).toMatchObject({ "rollout/trajectories": 6, "rollout/failed_share": 0, "experience/forks": 0 });
    expect(metrics[0]!["train/sampler_gap_max"]).toBeLessThan(1e-4);
  });
});

const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => weatherOf(city) });

describe.each([
  {
    name: "@ai-sdk/openai",
    modelOf: ({ baseURL, apiKey, model }: AgentCall) => createOpenAI({ baseURL, apiKey })(model),
  },
  {
    name: "@ai-sdk/openai-compatible",
    modelOf: ({ baseURL, apiKey, model }: AgentCall) =>
      createOpenAICompatible({ name: "reroll", baseURL, apiKey })(model),
  },
])("the AI SDK with $name", ({ modelOf }) => {
  const ask = (call: AgentCall) => {
    const model: LanguageModel = modelOf(call);
    return { model, tools: { weather }, stopWhen: stepCountIs(4), prompt: questions[0]!.prompt };
  };

  test("plain, repeated and streamed, a tool loop is one row", async () => {
    for (const isShaky of [false, true]) {
      expectOneRow(
        await play(async (prompt, call) => rewardFor(prompt, (await generateText(ask(call))).text), isShaky),
      );
      await running!.close();
    }
    expectOneRow(await play(async (prompt, call) => rewardFor(prompt, await streamText(ask(call)).text)));
  });
});

const Mood = z.strictObject({ mood: z.enum(["good", "bad"]), score: z.int().min(0).max(9) });

const opening = [{ role: "user" as const, content: "How was it?" }];

/** The second question of each agent, after its own first reply: an answer that changed on its way back would fork the row. */
const again = (reply: string) => [
  ...opening,
  { role: "assistant" as const, content: reply },
  { role: "user" as const, content: "And now?" },
];

const structuredAgents: Record<string, (call: AgentCall) => Promise<readonly unknown[]>> = {
  async "openai's response_format"({ baseURL, apiKey, model }) {
    const client = new OpenAI({ baseURL, apiKey });
    const json_schema = { name: "mood", schema: z.toJSONSchema(Mood), strict: true };
    const ask = async (messages: OpenAI.Chat.ChatCompletionMessageParam[]) => {
      const response_format = { type: "json_schema" as const, json_schema };
      const { choices } = await client.chat.completions.create({ model, messages, response_format });
      return choices[0]!.message.content!;
    };
    const first = await ask(opening);
    return [first, await ask(again(first))].map((text) => JSON.parse(text));
  },
  async "the AI SDK's generateObject"({ baseURL, apiKey, model: name }) {
    const model = createOpenAI({ baseURL, apiKey })(name);
    return [(await generateObject({ model, schema: Mood, messages: opening })).object];
  },
  async "the AI SDK's generateObject over chat completions"({ baseURL, apiKey, model: name }) {
    const model = createOpenAICompatible({ name: "reroll", baseURL, apiKey, supportsStructuredOutputs: true })(name);
    return [(await generateObject({ model, schema: Mood, messages: opening })).object];
  },
  async "the AI SDK's Output.object"({ baseURL, apiKey, model: name }) {
    const model = createOpenAI({ baseURL, apiKey })(name);
    const ask = (messages: ModelMessage[]) =>
      generateText({ model, messages, output: Output.object({ schema: Mood }) });
    const first = await ask(opening);
    return [first.output, (await ask(again(first.text))).output];
  },
};

test("agents that ask for JSON of a schema get it from noise in a run, every call recorded and no row forked", async () => {
  const answers: unknown[] = [];
  const examples = [...own, ...(hasFrameworks ? frameworks : [])];
  const names = [...Object.keys(structuredAgents), ...examples];
  const { metrics, trajectories } = await trainSmall({
    agent: async (prompt: Prompt, call: AgentCall) => {
      const name = String(prompt.truth);
      // An example reads its answer itself, and would fail where it did not fit.
      if (examples.includes(name)) return (await exampleOf(name)).structuredAgent!(prompt, call);
      const found = await structuredAgents[name]!(call);
      answers.push(...found);
      return found.length;
    },
    data: { type: "rows", rows: names.map((name) => ({ prompt: name, answer: name })) },
    rollout: { groupsPerStep: names.length, groupSize: 2, contextLength: 512, sampling: { maxTokens: 96 } },
    training: { optimizer: { lr: 1e-3 } },
    engine: { threads: 1 },
    loop: { type: "sync", steps: 1 },
  });
  for (const answer of answers) Mood.parse(answer);
  const counts = { "rollout/trajectories": 2 * names.length, "rollout/failed_share": 0, "experience/forks": 0 };
  expect(metrics[0]).toMatchObject(counts);
  expect(metrics[0]!["train/sampler_gap_max"]).toBeLessThan(1e-4);
  expect(answers).toHaveLength(12);
  expect(trajectories.flatMap(({ turns }) => turns)).toHaveLength(12 + 2 * examples.length);
});
