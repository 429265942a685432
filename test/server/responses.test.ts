/** /v1/responses, driven with the openai package. */
import OpenAI from "openai";
import type { FunctionTool, ResponseInputItem, ResponseStreamEvent } from "openai/resources/responses/responses";
import { afterEach, expect, test } from "vitest";
import { MODEL, type RunningServer, type StartOptions, startServer } from "./start-server.ts";

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

/** @param session the episode that the client's calls belong to */
async function connect(options: StartOptions = {}, session?: string) {
  running = await startServer(options);
  const baseURL = session === undefined ? `${running.url}/v1` : `${running.url}/sessions/${session}/v1`;
  return { client: new OpenAI({ apiKey: "none", baseURL, maxRetries: 0 }), running };
}

const weather: FunctionTool = {
  type: "function",
  name: "weather",
  description: "Tells the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: false,
};
const call = (city: string) => `<tool_call>\n{"name": "weather", "arguments": {"city":  "${city}"}}\n</tool_call>`;

/** How many samples the episode has, and how many turns each. */
function turnsOf({ server }: RunningServer, session: string): readonly number[] {
  const found = server.sessions.read(session);
  if (!("session" in found)) throw new Error("the session has ended");
  return found.session.record().samples.map(({ turns }) => turns.length);
}

test("a text and instructions become a conversation, and the answer says what it cost", async () => {
  const prompts: string[] = [];
  const { client } = await connect({
    reply(prompt) {
      prompts.push(prompt);
      return "Hello there";
    },
  });
  const response = await client.responses.create({ model: MODEL, instructions: "Be kind.", input: "Hi" });
  expect(response.output_text).toBe("Hello there");
  expect(prompts).toEqual([
    "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
  ]);
  expect(response).toMatchObject({ object: "response", status: "completed", instructions: "Be kind.", error: null });
  expect(response.usage).toMatchObject({ output_tokens: 12, output_tokens_details: { reasoning_tokens: 0 } });
  expect(response.output).toMatchObject([
    { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text" }] },
  ]);
});

test("a stream tells text and calls in OpenAI's order, every event numbered", async () => {
  const { client } = await connect({ reply: () => `Let me see.${call("Oslo")}${call("Rome")}` });
  const stream = await client.responses.create({ model: MODEL, input: "?", tools: [weather], stream: true });
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
  const types = events.map(({ type }) => type.replace("response.", ""));
  const callEvents = [
    ...["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"],
  ];
  expect(types.filter((type, index) => type !== types[index - 1])).toEqual([
    ...["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"],
    ...["output_text.done", "content_part.done", "output_item.done", ...callEvents, ...callEvents, "completed"],
  ]);
  const last = events.at(-1);
  if (last?.type !== "response.completed") throw new Error("the stream has no end");
  expect(last.response.output).toMatchObject([
    { type: "message", content: [{ text: "Let me see." }] },
    { type: "function_call", name: "weather", arguments: '{"city":"Oslo"}', status: "completed" },
    { type: "function_call", name: "weather", arguments: '{"city":"Rome"}', status: "completed" },
  ]);
});

test("the client's own helper for streams puts the answer together", async () => {
  const { client } = await connect({ reply: () => `Hm ${call("Oslo")} done` });
  const stream = client.responses.stream({ model: MODEL, input: "?", tools: [weather] });
  const response = await stream.finalResponse();
  expect(response.output.map(({ type }) => type)).toEqual(["message", "function_call", "message"]);
});

test("a conversation sent back as items extends the tokens that were sampled", async () => {
  const replies = [`  Let me see. \n${call("Oslo")}\n${call("Rome")} and more`, "Cold."];
  const { client, running } = await connect({ reply: (_, index) => replies[index] }, "episode-1");
  const input: ResponseInputItem[] = [{ role: "user", content: "Weather?" }];
  const first = await client.responses.create({ model: MODEL, input, tools: [weather], store: false });
  const sentBack = first.output.filter((item) => item.type === "message" || item.type === "function_call");
  input.push(...sentBack);
  for (const item of sentBack) {
    if (item.type === "function_call")
      input.push({ type: "function_call_output", call_id: item.call_id, output: `cold in ${item.arguments}` });
  }
  const second = await client.responses.create({ model: MODEL, input, tools: [weather], store: false });
  expect(second.output_text).toBe("Cold.");
  expect(Reflect.get(second, "reroll")).toMatchObject({ session: "episode-1", prefix: { kind: "extended" } });
  expect(turnsOf(running, "episode-1")).toEqual([2]);
});

test("previous_response_id goes on from an answer, without its instructions", async () => {
  const prompts: string[] = [];
  const { client, running } = await connect(
    {
      reply(prompt, index) {
        prompts.push(prompt);
        return index === 0 ? call("Oslo") : "Fine.";
      },
    },
    "episode-2",
  );
  const ask = { model: MODEL, tools: [weather] };
  const first = await client.responses.create({ ...ask, input: "Weather?" });
  const [item] = first.output;
  if (item?.type !== "function_call") throw new Error("no call");
  const second = await client.responses.create({
    ...ask,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: item.call_id, output: "cold" }],
  });
  const third = await client.responses.create({ ...ask, previous_response_id: second.id, input: "Sure?" });
  expect(third.previous_response_id).toBe(second.id);
  expect(prompts[2]).toMatch(/Weather\?.*tool_call.*cold.*Fine\..*Sure\?/s);
  expect(turnsOf(running, "episode-2")).toEqual([3]);
  const again = await client.responses.retrieve(second.id);
  expect(again.output_text).toBe("Fine.");
  await client.responses.delete(second.id);
  await expect(client.responses.retrieve(second.id)).rejects.toMatchObject({ status: 404 });
});

test("an item is found by its id, in its own session only", async () => {
  const { client, running } = await connect({ reply: () => "Blue." }, "episode-3");
  const first = await client.responses.create({ model: MODEL, input: "Color?" });
  const input: ResponseInputItem[] = [
    { role: "user", content: "Color?" },
    { type: "item_reference", id: first.output[0]?.id ?? "" },
    { role: "user", content: "Why?" },
  ];
  await client.responses.create({ model: MODEL, input });
  expect(turnsOf(running, "episode-3")).toEqual([2]);
  const other = new OpenAI({ apiKey: "none", baseURL: `${running.url}/sessions/other/v1`, maxRetries: 0 });
  await expect(other.responses.create({ model: MODEL, input })).rejects.toThrow(/not stored here/);
  const stranger = { model: MODEL, input: "?", previous_response_id: first.id };
  await expect(other.responses.create(stranger)).rejects.toThrow(/Previous response with id .* not found/);
});

test("an answer that is not to be stored cannot be gone on from", async () => {
  const { client } = await connect({ reply: () => "Blue." });
  const { id } = await client.responses.create({ model: MODEL, input: "Color?", store: false });
  const next = { model: MODEL, input: "Why?", previous_response_id: id };
  await expect(client.responses.create(next)).rejects.toMatchObject({ status: 400, param: "previous_response_id" });
});

test("a reply cut by max_output_tokens is incomplete, whole and in a stream", async () => {
  const { client } = await connect({ reply: () => "a".repeat(50) });
  const ask = { model: MODEL, input: "?", max_output_tokens: 5 };
  const whole = await client.responses.create(ask);
  expect(whole).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
  expect(whole.output_text).toBe("aaaaa");
  const stream = await client.responses.create({ ...ask, stream: true });
  let last = "";
  for await (const event of stream) last = event.type;
  expect(last).toBe("response.incomplete");
});

test("log-probs come where they are asked for", async () => {
  const { client } = await connect({ reply: () => "ab" });
  const response = await client.responses.create({
    ...{ model: MODEL, input: "?", include: ["message.output_text.logprobs"], top_logprobs: 2 },
  });
  expect(response.output).toMatchObject([
    { content: [{ logprobs: [{ token: "a", top_logprobs: [{}, {}] }, { token: "b" }, {}] }] },
  ]);
});

test("reasoning is ignored aloud, and a reply without text is an empty message", async () => {
  const { running } = await connect({ reply: () => "" });
  const response = await running.post("/v1/responses", { input: "?", reasoning: { effort: "low" } });
  expect(response.headers.get("x-reroll-ignored-fields")).toBe("reasoning");
  expect(await response.json()).toMatchObject({ output: [{ type: "message", content: [{ text: "" }] }] });
});

test("in a run the model answers to whatever name the agent was written with", async () => {
  const { client } = await connect({ reply: () => "Hi", server: { acceptsAnyModel: true } });
  expect((await client.responses.create({ model: "gpt-5.1", input: "?" })).model).toBe(MODEL);
  expect((await client.models.retrieve("gpt-5.1")).id).toBe(MODEL);
  const strict = await startServer();
  const response = await strict.post("/v1/responses", { model: "gpt-5.1", input: "?" });
  expect(response.status).toBe(404);
  await strict.close();
});

const refusals: readonly (readonly [what: string, body: object, message: string])[] = [
  ["a hosted tool", { input: "?", tools: [{ type: "web_search" }] }, "a tool that OpenAI runs on its side"],
  ["an image", { input: [{ role: "user", content: [{ type: "input_image" }] }] }, "is an image"],
  ["an unknown item", { input: [{ type: "computer_call" }] }, "which this server does not take"],
  ["a call without a name", { input: [{ type: "function_call", call_id: "1" }] }, "must be a call with call_id, name"],
  ["no input", {}, "input must have at least one item"],
  ["background work", { input: "?", background: true }, "background is not supported"],
];

test.for(refusals)("%s is refused with a reason", async ([, body, message]) => {
  const { running } = await connect();
  const response = await running.post("/v1/responses", body);
  expect(response.status).toBe(400);
  const { error } = (await response.json()) as { error: { message: string } };
  expect(error.message).toContain(message);
});
