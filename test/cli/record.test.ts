/** `reroll record` in front of a server: what passes through, what is kept, and that a run trains from it. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { record } from "../../src/cli/record/record.ts";
import { trainSmall } from "../runs/small-run.ts";
import { type RunningServer, type StartOptions, startServer } from "../server/start-server.ts";

const KEY = "sk-production-1234567890";

let folder: string;
let running: RunningServer | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-record-"));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  rmSync(folder, { recursive: true });
});

interface Row {
  readonly id: string;
  readonly messages: readonly { role: string; content: string | null }[];
  readonly opening: readonly object[];
  readonly tools: readonly object[];
  readonly model: string;
  readonly calls: readonly { startedAt: string; ms: number; firstByteMs: number; finish: string; usage: object }[];
}

/** Records while `work` talks through the recorder. Returns the rows, and what was printed. */
async function recording(work: (client: OpenAI, baseURL: string) => Promise<void>, options: StartOptions = {}) {
  running = await startServer({
    reply: (_, i) => `reply ${i}`,
    ...options,
    server: { apiKey: KEY, acceptsAnyModel: true },
  });
  const out = join(folder, "conversations.jsonl");
  const stop = new AbortController();
  const printed: string[] = [];
  let onListening: (address: string) => void = () => {};
  const listening = new Promise<string>((resolve) => {
    onListening = resolve;
  });
  const print = (line: string) => {
    printed.push(line);
    const address = /give the agent (\S+) as/.exec(line)?.[1];
    if (address !== undefined) onListening(address);
  };
  const place = { out, host: "127.0.0.1", port: 0, idleSeconds: 60 };
  const done = record({ upstream: `${running.url}/v1`, ...place, signal: stop.signal, print });
  const baseURL = await Promise.race([listening, done.then(() => "")]);
  try {
    await work(new OpenAI({ baseURL, apiKey: KEY, maxRetries: 0 }), baseURL);
  } finally {
    stop.abort();
    await done;
  }
  const text = readFileSync(out, "utf8");
  const rows: readonly Row[] = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  return { rows, text, printed, out };
}

const user = (content: string) => ({ role: "user", content }) as const;
const weather = { type: "function", function: { name: "weather", parameters: { type: "object" } } } as const;

test("calls that go on from each other are one conversation, streamed or not, with tools, times and usage", async () => {
  const reply = (_: string, i: number) => (i === 1 ? `Let me see.\n${toolCall}` : `reply ${i}`);
  const { rows, printed } = await recording(
    async (client) => {
      const ask = { model: "gpt-9", tools: [weather] };
      const messages: OpenAI.Chat.ChatCompletionMessageParam[] = [{ role: "system", content: "Be brief." }, user("Hi")];
      const first = await client.chat.completions.create({ ...ask, messages });
      messages.push(first.choices[0]!.message, user("How is the weather?"));
      const streamed = client.chat.completions.stream({ ...ask, messages, stream_options: { include_usage: true } });
      const { message } = (await streamed.finalChatCompletion()).choices[0]!;
      messages.push(message, { role: "tool", tool_call_id: message.tool_calls![0]!.id, content: "19" });
      await client.chat.completions.create({ ...ask, messages });
      await client.chat.completions.create({ model: "other", messages: [user("Unrelated")] });
    },
    { reply },
  );
  expect(rows.map(({ model, calls }) => [model, calls.length])).toEqual([
    ["gpt-9", 3],
    ["other", 1],
  ]);
  const [talk] = rows;
  expect(talk!.messages.map(({ role }) => role)).toEqual([
    "system",
    "user",
    "assistant",
    "user",
    "assistant",
    "tool",
    "assistant",
  ]);
  expect(talk!.messages[4]).toMatchObject({
    content: expect.stringContaining("Let me see."),
    tool_calls: [{ type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } }],
  });
  expect(talk!.messages.at(-1)).toEqual({ role: "assistant", content: "reply 2" });
  expect(talk!.opening).toHaveLength(2);
  expect(talk!.tools).toEqual([weather]);
  expect(talk!.calls.map(({ finish }) => finish)).toEqual(["stop", "tool_calls", "stop"]);
  expect(talk!.calls[1]!.usage).toMatchObject({ completion_tokens: expect.any(Number) });
  expect(talk!.calls.every(({ ms, firstByteMs }) => firstByteMs <= ms)).toBe(true);
  expect(printed.at(-1)).toMatch(/^Kept 2 conversations with 4 calls in /);
});

const toolCall = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';
const callsFirst = (prompt: string) => (prompt.includes("19 degrees") ? "19" : `Let me see.\n${toolCall}`);

/** What every API makes of the same conversation: a question, a call with words before it, its result and the answer. */
const talked = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "How warm is Rome?" },
  {
    role: "assistant",
    content: expect.stringContaining("Let me see."),
    tool_calls: [{ type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } }],
  },
  { role: "tool", content: expect.stringContaining("19 degrees"), tool_call_id: expect.any(String) },
  { role: "assistant", content: "19" },
];

function expectTalked({ messages, opening, tools, calls }: Row): void {
  expect(messages).toMatchObject(talked);
  expect(opening).toHaveLength(2);
  expect(tools).toMatchObject([{ type: "function", function: { name: "weather", parameters: { type: "object" } } }]);
  expect(calls).toHaveLength(2);
  expect(calls.every(({ finish, usage }) => typeof finish === "string" && usage !== null)).toBe(true);
}

test("calls of the Responses API are kept as chats: by previous id, by references to items, streamed or not", async () => {
  const tools = {
    weather: tool({ inputSchema: z.object({ city: z.string() }), execute: async () => "19 degrees" }),
  };
  const { rows, printed } = await recording(
    async (client, baseURL) => {
      const { parameters } = weather.function;
      const shared = {
        ...{ model: "m", instructions: "Be brief." },
        tools: [{ type: "function" as const, name: "weather", parameters, strict: false }],
      };
      const first = await client.responses.create({ ...shared, input: "How warm is Rome?" });
      const call = first.output.find((item) => item.type === "function_call")!;
      const result = { type: "function_call_output" as const, call_id: call.call_id, output: "19 degrees" };
      const events = client.responses.stream({ ...shared, previous_response_id: first.id, input: [result] });
      await events.finalResponse();
      const model = createOpenAI({ baseURL, apiKey: KEY })("m");
      const ask = { model, tools, stopWhen: stepCountIs(3), system: "Be brief.", prompt: "How warm is Rome?" };
      expect((await generateText(ask)).text).toBe("19");
      expect(await streamText(ask).text).toBe("19");
      const lost = { ...shared, previous_response_id: first.id, input: "x" };
      await client.responses.create(lost);
    },
    { reply: callsFirst },
  );
  expect(rows).toHaveLength(4);
  for (const row of rows.slice(0, 3)) expectTalked(row);
  // Two calls that go on from the same answer are two conversations.
  expect(rows[3]!.messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user", "assistant"]);
  expect(printed.at(-1)).toMatch(/^Kept 4 conversations with 7 calls in /);
});

test("calls of the Messages API are kept as chats, streamed or not", async () => {
  const { rows } = await recording(
    async (_, baseURL) => {
      const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: KEY, maxRetries: 0 });
      const ask = {
        ...{ model: "m", max_tokens: 100, system: "Be brief." },
        tools: [{ name: "weather", input_schema: { type: "object" as const } }],
      };
      const opening: Anthropic.MessageParam[] = [user("How warm is Rome?")];
      for (const isStreamed of [false, true]) {
        const send = async (messages: Anthropic.MessageParam[]) =>
          isStreamed
            ? client.messages.stream({ ...ask, messages }).finalMessage()
            : client.messages.create({ ...ask, messages });
        const { content } = await send(opening);
        const { id } = content.find((block) => block.type === "tool_use")!;
        const result = { type: "tool_result" as const, tool_use_id: id, content: "19 degrees" };
        await send([...opening, { role: "assistant", content }, { role: "user", content: [result] }]);
      }
    },
    { reply: callsFirst },
  );
  expect(rows).toHaveLength(2);
  for (const row of rows) expectTalked(row);
});

test("a text completion is kept as what was asked and replied, and a run imitates calls of every API", async () => {
  const { rows, out } = await recording(async (client) => {
    await client.completions.create({ model: "m", prompt: "one", max_tokens: 9 });
    const stream = await client.completions.create({ model: "m", prompt: "two", max_tokens: 9, stream: true });
    for await (const _ of stream);
    await client.responses.create({ model: "m", input: "three" });
  });
  expect(rows.map(({ messages }) => messages)).toEqual(
    ["one", "two", "three"].map((word, i) => [user(word), { role: "assistant", content: `reply ${i}` }]),
  );
  const { metrics } = await trainSmall({
    rewards: { default: { type: "contains" } },
    warmStart: { type: "data", data: { type: "jsonl", path: out }, steps: 1, rowsPerStep: 3 },
    data: { type: "jsonl", path: out, fields: { messages: "opening", truth: "model" } },
    rollout: { groupsPerStep: 3, groupSize: 2, contextLength: 96, sampling: { maxTokens: 4 } },
    ...{ training: { optimizer: { lr: 1e-4 } }, engine: { threads: 1 }, loop: { type: "sync", steps: 1 } },
  });
  expect(metrics.at(-1)).toMatchObject({ "rollout/trajectories": 6, "rollout/failed_share": 0 });
});

test("errors and other calls pass through and are not kept, and no key is ever written", async () => {
  const { rows, text, printed } = await recording(async (client, baseURL) => {
    await expect(client.chat.completions.create({ model: "m", messages: [] })).rejects.toMatchObject({ status: 400 });
    const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
    const refused = stranger.chat.completions.create({ model: "m", messages: [user("Hi")] });
    await expect(refused).rejects.toMatchObject({ status: 401 });
    expect((await client.models.list()).data).toHaveLength(1);
    const anthropic = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: KEY, maxRetries: 0 });
    await anthropic.messages.countTokens({ model: "m", messages: [user("Hi")] });
    const leaky = `My key is ${KEY}, at https://me:hunter22@shop.example/?token=abc" said he.`;
    await client.chat.completions.create({ model: "m", messages: [user(leaky)] });
  });
  expect(rows).toHaveLength(1);
  expect(rows[0]!.messages[0]!.content).toContain(
    "My key is [secret], at https://[secret]@shop.example/?token=[secret]",
  );
  for (const secret of [KEY, "hunter22", "abc\\"]) expect(text).not.toContain(secret);
  expect(
    printed.filter((line) => line.includes("POST /v1/messages/count_tokens is passed on and not kept")),
  ).toHaveLength(1);
});

test("an agent whose server is gone is told so, and a key in the address is refused", async () => {
  const { printed } = await recording(async (client) => {
    await running!.server.close();
    const lost = client.chat.completions.create({ model: "m", messages: [user("Hi")] });
    await expect(lost).rejects.toMatchObject({ status: 502, code: "upstream_unreachable" });
  });
  expect(printed.some((line) => line.includes("cannot be reached"))).toBe(true);
  const place = { out: join(folder, "none.jsonl"), host: "127.0.0.1", port: 0, idleSeconds: 1, print: () => {} };
  const { signal } = new AbortController();
  await expect(record({ upstream: "https://me:pass@api.example/v1", ...place, signal })).rejects.toThrow(
    "must hold no key",
  );
  await expect(record({ upstream: "api.example", ...place, signal })).rejects.toThrow("must be a base URL like");
});

test("keys of any header or query are left out, and a path that names another host stays with the server", async () => {
  const other = "other-key-0123456789";
  const { text } = await recording(async (_, baseURL) => {
    const said = [KEY, other, "query-key-0123456789"].join(" ");
    const { port } = new URL(baseURL);
    const path = "//127.0.0.1:1/v1/chat/completions?key=query-key-0123456789";
    const headers = { authorization: `Bearer ${KEY}`, "x-goog-api-key": other, "content-type": "application/json" };
    const status = await new Promise((resolve, reject) => {
      const sent = request({ port, path, method: "POST", headers }, (answer) => {
        answer.resume().on("end", () => resolve(answer.statusCode));
      });
      sent.on("error", reject).end(JSON.stringify({ model: "m", messages: [user(said)] }));
    });
    expect(status).toBe(200);
  });
  expect(text).toContain('"content":"[secret] [secret] [secret]"');
  const place = { out: join(folder, "none.jsonl"), host: "127.0.0.1", port: 0, idleSeconds: 60 };
  const options = { ...place, signal: AbortSignal.abort(), print: () => {} };
  await expect(record({ upstream: "http://127.0.0.1:1/v1#sk-0123456789", ...options })).rejects.toThrow("no fragment");
});
