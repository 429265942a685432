/** /v1/messages, driven with Anthropic's package. */
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { MODEL, type RunningServer, type StartOptions, startServer } from "./start-server.ts";

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

async function connect(options: StartOptions = {}, { session = "", apiKey = "none", maxRetries = 0 } = {}) {
  running = await startServer(options);
  const baseURL = session === "" ? running.url : `${running.url}/sessions/${session}`;
  return { client: new Anthropic({ apiKey, baseURL, maxRetries }), running };
}

const ask = { model: MODEL, max_tokens: 200 };
const weather: Anthropic.Tool = {
  name: "weather",
  description: "Tells the weather.",
  input_schema: { type: "object", properties: { city: { type: "string" } } },
};
const call = (city: string) => `<tool_call>\n{"name": "weather", "arguments": {"city":  "${city}"}}\n</tool_call>`;

test("a message gives blocks, the reason it ended, and what it cost", async () => {
  const prompts: string[] = [];
  const { client } = await connect({
    reply(prompt) {
      prompts.push(prompt);
      return "Hello there";
    },
  });
  const message = await client.messages.create({
    ...ask,
    system: [{ type: "text", text: "Be kind.", cache_control: { type: "ephemeral" } }],
    messages: [{ role: "user", content: "Hi" }],
  });
  expect(prompts).toEqual([
    "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
  ]);
  expect(message).toMatchObject({
    ...{ type: "message", role: "assistant", stop_reason: "end_turn", stop_sequence: null },
    content: [{ type: "text", text: "Hello there" }],
    usage: { output_tokens: 12, cache_read_input_tokens: 0 },
  });
  const counted = await client.messages.countTokens({ model: MODEL, messages: [{ role: "user", content: "Hi" }] });
  expect(counted.input_tokens).toBe("<user\nHi<\n<assistant\n".length);
});

test("tools called twice at once, in a stream, and answered: one row, nothing encoded again", async () => {
  const replies = [`Let me see. ${call("Oslo")}\n${call("Rome")}`, "Cold."];
  const { client, running } = await connect({ reply: (_, index) => replies[index] }, { session: "episode-1" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Weather?" }];
  const events: string[] = [];
  const stream = client.messages
    .stream({ ...ask, tools: [weather], messages })
    .on("streamEvent", ({ type }) => events.push(type));
  const first = await stream.finalMessage();
  const block = ["content_block_start", "content_block_delta", "content_block_stop"];
  expect(events.filter((type, index) => type !== events[index - 1])).toEqual([
    ...["message_start", ...block, ...block, ...block, "message_delta", "message_stop"],
  ]);
  expect(first.stop_reason).toBe("tool_use");
  expect(first.content).toMatchObject([
    { type: "text", text: "Let me see." },
    { type: "tool_use", name: "weather", input: { city: "Oslo" } },
    { type: "tool_use", name: "weather", input: { city: "Rome" } },
  ]);
  messages.push({ role: "assistant", content: first.content });
  const results = first.content.flatMap((one) =>
    one.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: one.id, content: "cold" }] : [],
  );
  messages.push({ role: "user", content: [...results, { type: "text", text: "Well?" }] });
  const second = await client.messages.create({ ...ask, tools: [weather], messages });
  expect(second.content).toMatchObject([{ type: "text", text: "Cold." }]);
  const found = running.server.sessions.read("episode-1");
  if (!("session" in found)) throw new Error("the session has ended");
  const { samples } = found.session.record();
  expect(samples.map(({ turns }) => turns.length)).toEqual([2]);
});

test("a stop sequence and a limit are told as such", async () => {
  const { client } = await connect({ reply: () => "one two three" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "?" }];
  const stopped = await client.messages.create({ ...ask, messages, stop_sequences: ["two"] });
  expect(stopped).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "two", content: [{ text: "one " }] });
  const cut = await client.messages.create({ ...ask, max_tokens: 3, messages });
  expect(cut).toMatchObject({ stop_reason: "max_tokens", content: [{ text: "one" }] });
});

test("the key is taken from x-api-key, and a wrong one is refused in Anthropic's shape", async () => {
  const { client, running } = await connect({ reply: () => "Hi", server: { apiKey: "sesame" } }, { apiKey: "sesame" });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "?" }];
  expect(await client.messages.create({ ...ask, messages })).toMatchObject({ content: [{ text: "Hi" }] });
  const stranger = new Anthropic({ apiKey: "wrong", baseURL: running.url, maxRetries: 0 });
  await expect(stranger.messages.create({ ...ask, messages })).rejects.toThrow(Anthropic.AuthenticationError);
});

test("a client tries again after a broken reply, and both calls are recorded", async () => {
  const { client, running } = await connect(
    {
      reply: () => "Hi",
      failure: (index) => (index === 0 ? new RerollError("QUEUE_FULL", "The engine is full.") : undefined),
    },
    { session: "episode-2", maxRetries: 1 },
  );
  await client.messages.create({ ...ask, messages: [{ role: "user", content: "?" }] });
  const found = running.server.sessions.read("episode-2");
  if (!("session" in found)) throw new Error("the session has ended");
  const { samples, brokenTurns } = found.session.record();
  expect([samples.length, brokenTurns.length]).toEqual([1, 1]);
});

const user = { role: "user", content: "?" };
const refusals: readonly (readonly [what: string, body: object, message: string])[] = [
  ["an image", { messages: [{ role: "user", content: [{ type: "image", source: {} }] }] }, "is an image"],
  [
    "a tool of Anthropic's",
    { messages: [user], tools: [{ type: "bash_20250124", name: "bash" }] },
    "knows custom tools",
  ],
  [
    "a reply that is begun",
    { messages: [user, { role: "assistant", content: "I" }] },
    "must not end with an assistant",
  ],
  ["no limit", { messages: [user], max_tokens: null }, "max_tokens must be"],
];

test.for(refusals)("%s is refused with a reason", async ([, body, message]) => {
  const { running } = await connect();
  const response = await running.post("/v1/messages", { max_tokens: 5, ...body });
  expect(response.status).toBe(400);
  const told = (await response.json()) as { type: string; error: { type: string; message: string } };
  expect(told).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
  expect(told.error.message).toContain(message);
});
