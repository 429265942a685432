/** Structured output through the clients that people use, over a real engine with a random model: every call recorded, no fork. */
import { randomUUID } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";

const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");
const model = tinyModel(tinyConfig("qwen3", { vocabSize: 264, maxPositions: 4096 }));
const engine = new LocalEngine(model, { tokenizer, contextLength: 4096, numBlocks: 1024 });
const faults: unknown[] = [];
const server = createServer(
  {
    engine,
    tokenizer,
    modelName: "policy",
    clock: Date.now,
    newId: randomUUID,
    onError: (cause) => faults.push(cause),
  },
  { acceptsAnyModel: true },
);
let url = "";
beforeAll(async () => {
  url = await server.listen();
});
afterAll(async () => {
  await server.close();
  await engine.close();
  model.dispose();
  expect(faults).toEqual([]);
});

const schema = {
  type: "object",
  properties: { mood: { enum: ["good", "bad"] }, score: { type: "integer", minimum: 0, maximum: 10 } },
  required: ["mood", "score"],
  additionalProperties: false,
};
const parameters = {
  type: "object",
  properties: { city: { enum: ["Oslo", "Rome"] } },
  required: ["city"],
  additionalProperties: false,
};
const user = { role: "user" as const, content: "?" };

const openaiFor = (session: string) =>
  new OpenAI({ apiKey: "none", baseURL: `${url}/sessions/${session}/v1`, maxRetries: 0 });

/** The turns of each sample of an episode; all drawn from what was allowed, and so no less likely than under the whole distribution. */
function turnsOf(session: string): readonly number[] {
  const found = server.sessions.read(session);
  if (!("session" in found)) throw new Error("the session has ended");
  const { samples, brokenTurns } = found.session.record();
  expect(brokenTurns).toEqual([]);
  for (const { drawLogprobs, samplerLogprobs } of samples.flatMap(({ turns }) => turns)) {
    const isAbove = drawLogprobs.every((drawn, index) => drawn >= samplerLogprobs[index]! - 1e-5);
    expect(isAbove && drawLogprobs.some((drawn, index) => drawn > samplerLogprobs[index]! + 0.1)).toBe(true);
  }
  return samples.map(({ turns }) => turns.length);
}

function expectFits(text: string | null | undefined): void {
  const { mood, score } = JSON.parse(text ?? "") as { mood: string; score: number };
  expect(["good", "bad"]).toContain(mood);
  expect(Number.isInteger(score) && score >= 0 && score <= 10).toBe(true);
}

test("chat completions: a schema, several choices of it, a pattern, and a choice", async () => {
  const client = openaiFor("chat");
  const ask = { model: "gpt-5.1", messages: [user] };
  const format = { type: "json_schema" as const, json_schema: { name: "mood", schema, strict: true } };
  const { choices } = await client.chat.completions.create({ ...ask, n: 2, seed: 3, response_format: format });
  for (const { message, finish_reason } of choices) {
    expectFits(message.content);
    expect(finish_reason).toBe("stop");
  }
  const extra = async (body: object) =>
    (await client.chat.completions.create({ ...ask, ...body })).choices[0]?.message.content;
  expect(await extra({ guided_regex: "[ab]{3}" })).toMatch(/^[ab]{3}$/);
  expect(await extra({ structured_outputs: { regex: "[ab]{3}" } })).toMatch(/^[ab]{3}$/);
  expect(["yes", "no"]).toContain(await extra({ guided_choice: ["yes", "no"] }));
  expect(turnsOf("chat").length).toBe(5);
});

test("chat completions: forced calls are answered and extend one row, in a stream too", async () => {
  const client = openaiFor("calls");
  const tools = [{ type: "function" as const, function: { name: "weather", parameters } }];
  const messages: OpenAI.ChatCompletionMessageParam[] = [user];
  const named = { type: "function" as const, function: { name: "weather" } };
  for (const tool_choice of ["required" as const, named]) {
    const stream = client.chat.completions.stream({
      model: "m",
      messages,
      tools,
      tool_choice,
      parallel_tool_calls: false,
    });
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]!;
    expect(finish_reason).toBe("tool_calls");
    const [call, ...others] = message.tool_calls ?? [];
    if (call?.type !== "function" || others.length > 0) throw new Error("not one call");
    expect(["Oslo", "Rome"]).toContain((JSON.parse(call.function.arguments) as { city: string }).city);
    messages.push({ role: "assistant", content: message.content, tool_calls: [call] });
    messages.push({ role: "tool", tool_call_id: call.id, content: "cold" });
  }
  await client.chat.completions.create({
    ...{ model: "m", messages, tools, tool_choice: "none" as const },
    response_format: { type: "json_object" },
    max_tokens: 60,
    logit_bias: { 125: 20 },
  });
  expect(turnsOf("calls")).toEqual([3]);
});

test("responses: a forced call, then a schema beside the tools", async () => {
  const client = openaiFor("responses");
  const tools = [{ type: "function" as const, name: "weather", parameters, strict: true }];
  const first = await client.responses.create({
    model: "m",
    input: "?",
    tools,
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const [item] = first.output;
  if (item?.type !== "function_call") throw new Error("no call");
  const format = { type: "json_schema" as const, name: "mood", schema };
  const second = await client.responses.create({
    ...{ model: "m", previous_response_id: first.id, tools, text: { format } },
    input: [{ type: "function_call_output", call_id: item.call_id, output: "cold" }],
  });
  if (second.output_text !== "") expectFits(second.output_text);
  else expect(second.output.every(({ type }) => type === "function_call")).toBe(true);
  expect(turnsOf("responses")).toEqual([2]);
});

test("messages: any tool, a certain one, and a schema", async () => {
  const client = new Anthropic({ apiKey: "none", baseURL: `${url}/sessions/messages`, maxRetries: 0 });
  const tools = [{ name: "weather", input_schema: parameters as Anthropic.Tool.InputSchema }];
  const messages: Anthropic.MessageParam[] = [user];
  const ask = { model: "claude", max_tokens: 500, messages };
  for (const choice of [{ type: "any" as const }, { type: "tool" as const, name: "weather" }]) {
    const tool_choice = { ...choice, disable_parallel_tool_use: true };
    const message = await client.messages.stream({ ...ask, tools, tool_choice }).finalMessage();
    expect(message.stop_reason).toBe("tool_use");
    const [block] = message.content;
    if (block?.type !== "tool_use" || message.content.length !== 1) throw new Error("not one call");
    messages.push({ role: "assistant", content: message.content });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: block.id, content: "cold" }] });
  }
  const last = await client.messages.create({
    ...ask,
    tools,
    tool_choice: { type: "none" },
    output_config: { format: { type: "json_schema", schema } },
  });
  const [block] = last.content;
  expectFits(block?.type === "text" ? block.text : undefined);
  expect(turnsOf("messages")).toEqual([3]);
});

test("penalties count and are recorded; what cannot be enforced is refused before anything is drawn", async () => {
  const client = openaiFor("penalties");
  await client.chat.completions.create({
    model: "m",
    messages: [user],
    max_tokens: 40,
    frequency_penalty: 2,
    presence_penalty: 1,
    seed: 1,
  });
  const found = server.sessions.read("penalties");
  if (!("session" in found)) throw new Error("the session has ended");
  const [turn] = found.session.record().samples.flatMap(({ turns }) => turns);
  expect(turn?.drawLogprobs[0]).toBe(turn?.samplerLogprobs[0]);
  expect(turn?.drawLogprobs.at(-1)).not.toBe(turn?.samplerLogprobs.at(-1));
  const format = (value: object) => ({
    type: "json_schema" as const,
    json_schema: { name: "x", schema: value as Record<string, unknown> },
  });
  const bad = { model: "m", messages: [user], response_format: format({ type: "string", not: {} }) };
  await expect(client.chat.completions.create(bad)).rejects.toMatchObject({ status: 400, param: "response_format" });
  const unknown = { type: "function" as const, function: { name: "other" } };
  const tools = [{ type: "function" as const, function: { name: "weather", parameters } }];
  await expect(
    client.chat.completions.create({ model: "m", messages: [user], tools, tool_choice: unknown }),
  ).rejects.toThrow(/no tool of this request: weather/);
});
