/** Thinking apart from what is said, on every route, read by its own client, and history that holds it. */
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { byteTokenizerFiles } from "../../src/chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../src/chat/tokenizer/tokenizer.ts";
import { MODEL, type RunningServer, startServer } from "./start-server.ts";

/** It shows thinking and calls where they were written, as templates do that keep them. */
const TEMPLATE = `{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;
const files = new Map([...byteTokenizerFiles(), ["chat_template.jinja", new TextEncoder().encode(TEMPLATE)]]);
const tokenizer = createTokenizer(files, "bytes");

/** Written with more white space than the template has: encoded again, it would be other tokens. */
const REPLIES = [
  '<think>\nWhich   city?\n</think>\n\nLet me see. <tool_call>\n{"name": "weather",  "arguments": {"city": "Oslo"}}\n</tool_call>',
  "<think>Cold\nthen.</think> It is  cold.",
];

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

async function start(): Promise<RunningServer> {
  running = await startServer({
    tokenizer,
    contextLength: 4000,
    reply: (prompt) => REPLIES[prompt.includes("tool\n-3") ? 1 : 0]!,
  });
  return running;
}

/** The turns of each sample of the episode: one sample, whose prompts extend each other. */
function turnsOf({ server }: RunningServer, session: string): readonly number[] {
  const found = server.sessions.read(session);
  if (!("session" in found)) throw new Error("the session has ended");
  return found.session.record().samples.map(({ turns }) => turns.length);
}

const parameters = { type: "object" as const, properties: { city: { type: "string" } } };

test("chat completions: reasoning_content, sent back or not, leaves the tokens of the reply as they are", async () => {
  const server = await start();
  for (const isSentBack of [true, false]) {
    const client = new OpenAI({
      apiKey: "none",
      baseURL: `${server.url}/sessions/chat-${isSentBack}/v1`,
      maxRetries: 0,
    });
    const tools = [{ type: "function" as const, function: { name: "weather", parameters } }];
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "?" }];
    const first = await client.chat.completions.create({ model: MODEL, messages, tools });
    const { reasoning_content, ...said } = first.choices[0]!.message as OpenAI.ChatCompletionMessage & {
      reasoning_content: string;
    };
    expect([reasoning_content, said.content]).toEqual(["Which   city?", "Let me see."]);
    const back = isSentBack ? { ...said, reasoning_content } : said;
    messages.push(back, { role: "tool", tool_call_id: said.tool_calls![0]!.id, content: "-3" });
    const second = await client.chat.completions.create({ model: MODEL, messages, tools });
    expect(second.choices[0]!.message).toMatchObject({ content: "It is  cold.", reasoning_content: "Cold\nthen." });
    expect(turnsOf(server, `chat-${isSentBack}`)).toEqual([2]);
  }
});

test("responses: a reasoning item, sent back, referred to or left out, in a stream too", async () => {
  const server = await start();
  const tools = [{ type: "function" as const, name: "weather", parameters, strict: false }];
  const connect = (session: string) =>
    new OpenAI({ apiKey: "none", baseURL: `${server.url}/sessions/${session}/v1`, maxRetries: 0 });
  for (const way of ["sent", "left-out", "previous", "streamed"] as const) {
    const client = connect(way);
    const first =
      way === "streamed"
        ? await client.responses.stream({ model: MODEL, input: "?", tools }).finalResponse()
        : await client.responses.create({ model: MODEL, input: "?", tools });
    expect(first.output).toMatchObject([
      { type: "reasoning", status: "completed", summary: [{ type: "summary_text", text: "Which   city?" }] },
      { type: "message", content: [{ text: "Let me see." }] },
      { type: "function_call", name: "weather" },
    ]);
    const [{ call_id }] = first.output.filter((item) => item.type === "function_call") as [{ call_id: string }];
    const answer: ResponseInputItem = { type: "function_call_output", call_id, output: "-3" };
    const kept = first.output.filter((item) => way !== "left-out" || item.type !== "reasoning");
    const second = await client.responses.create(
      way === "previous"
        ? { model: MODEL, tools, previous_response_id: first.id, input: [answer] }
        : { model: MODEL, tools, input: [{ role: "user", content: "?" }, ...(kept as ResponseInputItem[]), answer] },
    );
    expect(second.output_text).toBe("It is  cold.");
    expect(turnsOf(server, way)).toEqual([2]);
  }
  const events: string[] = [];
  const stream = connect("events").responses.stream({ model: MODEL, input: "?", tools });
  for await (const event of stream) if (events.at(-1) !== event.type) events.push(event.type);
  expect(events.slice(2, 13)).toEqual([
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
  ]);
});

test("messages: a thinking block, sent back or not, in a stream too", async () => {
  const server = await start();
  const tools = [{ name: "weather", input_schema: parameters }];
  for (const [way, isStream] of [
    ["whole", false],
    ["stream", true],
    ["left-out", false],
  ] as const) {
    const client = new Anthropic({ apiKey: "none", baseURL: `${server.url}/sessions/${way}`, maxRetries: 0 });
    const ask = { model: MODEL, max_tokens: 500, tools };
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: "?" }];
    const first = isStream
      ? await client.messages.stream({ ...ask, messages }).finalMessage()
      : await client.messages.create({ ...ask, messages });
    expect(first.content).toMatchObject([
      { type: "thinking", thinking: "Which   city?", signature: "reroll" },
      { type: "text", text: "Let me see." },
      { type: "tool_use", name: "weather", input: { city: "Oslo" } },
    ]);
    const call = first.content.find((block) => block.type === "tool_use")!;
    const content = first.content.filter((block) => way !== "left-out" || block.type !== "thinking");
    messages.push(
      { role: "assistant", content: content as Anthropic.ContentBlockParam[] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "-3" }] },
    );
    const second = await client.messages.create({ ...ask, messages });
    expect(second.content).toMatchObject([
      { type: "thinking", thinking: "Cold\nthen." },
      { type: "text", text: "It is  cold." },
    ]);
    expect(turnsOf(server, way)).toEqual([2]);
  }
});

test("the AI SDK shows the reasoning of responses and goes through a tool loop in one row", async () => {
  const server = await start();
  const openai = createOpenAI({ apiKey: "none", baseURL: `${server.url}/sessions/ai/v1` });
  const city = z.object({ city: z.string() });
  const result = streamText({
    model: openai(MODEL),
    prompt: "?",
    tools: { weather: tool({ inputSchema: city, execute: () => "-3" }) },
    stopWhen: stepCountIs(3),
  });
  const steps = await result.steps;
  expect(steps.map(({ text, reasoningText }) => [reasoningText, text])).toEqual([
    ["Which   city?", "Let me see."],
    ["Cold\nthen.", "It is  cold."],
  ]);
  expect(turnsOf(server, "ai")).toEqual([2]);
});
