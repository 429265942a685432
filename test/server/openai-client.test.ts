/** The server, driven with the openai package. */
import OpenAI from "openai";
import type { ChatCompletionMessageParam, ChatCompletionTool } from "openai/resources/chat/completions";
import { afterEach, expect, test } from "vitest";
import { MODEL, type RunningServer, type StartOptions, startServer } from "./start-server.ts";

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

async function connect(options: StartOptions = {}, clientOptions: ConstructorParameters<typeof OpenAI>[0] = {}) {
  running = await startServer(options);
  const client = new OpenAI({ apiKey: "none", baseURL: `${running.url}/v1`, maxRetries: 0, ...clientOptions });
  return { client, running };
}

const weatherTool: ChatCompletionTool = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

test("a plain chat gives the text, the reason it ended, and what it cost", async () => {
  const { client } = await connect({ reply: () => "Grüß dich 👋" });
  const completion = await client.chat.completions.create({
    model: MODEL,
    messages: [
      { role: "developer", content: "Be kind." },
      { role: "user", content: [{ type: "text", text: "Hi" }] },
    ],
  });
  expect(completion.choices[0]).toMatchObject({
    message: { role: "assistant", content: "Grüß dich 👋" },
    finish_reason: "stop",
  });
  const promptTokens = "<system\nBe kind.<\n<user\nHi<\n<assistant\n".length;
  const replyTokens = Buffer.byteLength("Grüß dich 👋") + 1;
  expect(completion.usage).toEqual({
    prompt_tokens: promptTokens,
    completion_tokens: replyTokens,
    total_tokens: promptTokens + replyTokens,
    prompt_tokens_details: { cached_tokens: 0 },
  });
});

test("a stream brings the text in pieces, whole characters each, and the usage at the end", async () => {
  const { client } = await connect({ reply: () => "Grüß dich 👋" });
  const stream = await client.chat.completions.create({
    model: MODEL,
    messages: [{ role: "user", content: "Hi" }],
    stream: true,
    stream_options: { include_usage: true },
  });
  const pieces: string[] = [];
  const finishes: unknown[] = [];
  let usage: unknown;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    if (choice?.delta.content) pieces.push(choice.delta.content);
    if (choice?.finish_reason) finishes.push(choice.finish_reason);
    usage = chunk.usage ?? usage;
  }
  expect(pieces.join("")).toBe("Grüß dich 👋");
  expect(pieces.length).toBeGreaterThan(3);
  expect(pieces).toContain("👋");
  expect(finishes).toEqual(["stop"]);
  expect(usage).toMatchObject({ completion_tokens: 17 });
});

test("stream_interval sends tokens together", async () => {
  const { running } = await connect({ reply: () => "a".repeat(40) });
  const count = async (interval: number) => {
    const body = { messages: [{ role: "user", content: "Hi" }], stream: true, stream_interval: interval };
    const text = await (await running.post("/v1/chat/completions", body)).text();
    expect(text.match(/a/g)).not.toBeNull();
    return text.split('"content":"a').length - 1;
  };
  expect(await count(1)).toBeGreaterThan(30);
  expect(await count(20)).toBeLessThan(6);
});

test("several choices differ, and one seed gives the same ones again", async () => {
  const { client } = await connect();
  const ask = () =>
    client.chat.completions.create({
      ...{ model: MODEL, n: 3, seed: 5, max_completion_tokens: 8 },
      messages: [{ role: "user", content: "Hi" }],
    });
  const [first, again] = [await ask(), await ask()];
  const texts = first.choices.map(({ message }) => message.content);
  expect(new Set(texts).size).toBe(3);
  expect(again.choices.map(({ message }) => message.content)).toEqual(texts);
  expect(first.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
});

test("several choices in one stream are told apart by their index", async () => {
  const { client } = await connect();
  const request = { model: MODEL, n: 3, seed: 5, max_tokens: 8, messages: [{ role: "user" as const, content: "Hi" }] };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({ ...request, stream: true });
  const texts = ["", "", ""];
  for await (const { choices } of stream) for (const { index, delta } of choices) texts[index] += delta.content ?? "";
  expect(texts).toEqual(whole.choices.map(({ message }) => message.content));
});

test("a stop string ends the reply and is not shown, streamed or not", async () => {
  const { client } = await connect({ reply: () => "one two STO STOP three" });
  const request = { model: MODEL, stop: ["STOP"], messages: [{ role: "user" as const, content: "Hi" }] };
  const { choices } = await client.chat.completions.create(request);
  expect(choices[0]?.message.content).toBe("one two STO ");
  expect(choices[0]?.finish_reason).toBe("stop");
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  expect(streamed).toBe("one two STO ");
});

test("log-probs come with text and bytes for every token, also in a stream", async () => {
  const { client } = await connect({ reply: () => "aé" });
  const request = {
    ...{ model: MODEL, logprobs: true, top_logprobs: 2 },
    messages: [{ role: "user" as const, content: "Hi" }],
  };
  const { choices } = await client.chat.completions.create(request);
  const content = choices[0]?.logprobs?.content ?? [];
  expect(content.map(({ token, bytes }) => [token, bytes])).toEqual([
    ["a", [97]],
    ["\ufffd", [0xc3]],
    ["\ufffd", [0xa9]],
    ["<|im_end|>", [...Buffer.from("<|im_end|>")]],
  ]);
  expect(content[0]).toMatchObject({
    logprob: -0.25,
    top_logprobs: [{ token: "a", logprob: -0.25 }, { logprob: -2.25 }],
  });
  const streamed = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
  }
  expect(streamed).toEqual(content);
});

test("completions take texts and token ids, and give log-probs in the old shape", async () => {
  const { client, running } = await connect({ reply: (prompt) => (prompt.startsWith("b") ? "BB" : "A") });
  const { choices, usage } = await client.completions.create({
    ...{ model: MODEL, prompt: ["a", "b"], max_tokens: 5, logprobs: 1 },
  });
  expect(choices.map(({ text, index, finish_reason }) => [text, index, finish_reason])).toEqual([
    ["A", 0, "stop"],
    ["BB", 1, "stop"],
  ]);
  expect(choices[1]?.logprobs).toEqual({
    tokens: ["B", "B", "<|im_end|>"],
    token_logprobs: [-0.25, -0.25, -0.25],
    top_logprobs: [{ B: -0.25 }, { B: -0.25 }, { "<|im_end|>": -0.25 }],
    text_offset: [0, 1, 2],
  });
  expect(usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 5 });
  const byIds = await client.completions.create({ model: MODEL, prompt: [...running.tokenizer.encode("b")], n: 2 });
  expect(byIds.choices.map(({ text }) => text)).toEqual(["BB", "BB"]);
  const streamed = await client.completions.create({ model: MODEL, prompt: "b", stream: true });
  let text = "";
  for await (const chunk of streamed) text += chunk.choices[0]?.text ?? "";
  expect(text).toBe("BB");
});

test("an agent calls a tool and answers from its result; the replies keep their own tokens", async () => {
  const written = 'I look it up.\n<tool_call>\n{"name": "weather",   "arguments": {"city": "Köln"}}\n</tool_call>';
  const { client, running } = await connect({
    reply: (prompt) => (prompt.includes("19 degrees") ? "It is warm." : written),
  });
  const headers = { "x-reroll-session": "episode-1" };
  const messages: ChatCompletionMessageParam[] = [{ role: "user", content: "How is the weather in Köln?" }];
  const ask = () =>
    client.chat.completions.create({ model: MODEL, messages, tools: [weatherTool] }, { headers }).withResponse();

  const first = await ask();
  const message = first.data.choices[0]?.message;
  const call = message?.tool_calls?.[0];
  expect(first.data.choices[0]?.finish_reason).toBe("tool_calls");
  expect(message?.content).toBe("I look it up.");
  expect(call).toMatchObject({ type: "function", function: { name: "weather", arguments: '{"city":"Köln"}' } });
  expect(first.response.headers.get("x-reroll-prefix")).toBe("new");

  messages.push(message!, { role: "tool", tool_call_id: call!.id, content: "19 degrees" });
  const second = await ask();
  expect(second.data.choices[0]?.message.content).toBe("It is warm.");
  expect(second.response.headers.get("x-reroll-prefix")).toBe("extended");
  expect(second.data.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(50);

  messages.push(second.data.choices[0]!.message, { role: "user", content: "Thanks" });
  expect((await ask()).response.headers.get("x-reroll-prefix")).toBe("extended");

  const reward = await running.post("/v1/sessions/episode-1/reward", { reward: 0.5, metadata: { task: "weather" } });
  expect(await reward.json()).toEqual({ id: "episode-1", status: "rewarded", num_samples: 1, num_turns: 3 });
  const [episode] = running.server.sessions.takeFinished();
  expect(episode?.end).toEqual({ kind: "rewarded", reward: 0.5, metadata: { task: "weather" } });
  const [one, two] = episode!.samples[0]!.turns;
  expect(running.tokenizer.decode(one!.tokenIds)).toBe(`${written}<|im_end|>`);
  const before = [...one!.promptIds, ...one!.tokenIds];
  expect([...two!.promptIds.slice(0, before.length)]).toEqual(before);
});

test("a stream holds tool calls back, and text flows on around them", async () => {
  const call = (city: string) => `<tool_call>{"name": "weather", "arguments": {"city": "${city}"}}</tool_call>`;
  const { client } = await connect({ reply: () => `Two calls: ${call("Rom")}\n${call("Bonn")} and a < b.` });
  const stream = await client.chat.completions.create({
    ...{ model: MODEL, stream: true, tools: [weatherTool] },
    messages: [{ role: "user", content: "Hi" }],
  });
  let content = "";
  const calls: { id: string; name: string; args: string }[] = [];
  let finish: string | null | undefined;
  for await (const { choices } of stream) {
    const [choice] = choices;
    content += choice?.delta.content ?? "";
    for (const delta of choice?.delta.tool_calls ?? []) {
      calls[delta.index] ??= { id: delta.id ?? "", name: "", args: "" };
      calls[delta.index]!.name += delta.function?.name ?? "";
      calls[delta.index]!.args += delta.function?.arguments ?? "";
    }
    finish = choice?.finish_reason ?? finish;
  }
  expect(content).toBe("Two calls:and a < b.");
  expect(calls.map(({ name, args }) => [name, args])).toEqual([
    ["weather", '{"city":"Rom"}'],
    ["weather", '{"city":"Bonn"}'],
  ]);
  expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
  expect(finish).toBe("tool_calls");
});

test("with tool_choice none, a call is text like any other", async () => {
  const { client } = await connect({ reply: () => '<tool_call>{"name": "weather"}</tool_call>' });
  const { choices } = await client.chat.completions.create({
    ...{ model: MODEL, tools: [weatherTool], tool_choice: "none" as const },
    messages: [{ role: "user", content: "Hi" }],
  });
  expect(choices[0]?.message).toMatchObject({ content: '<tool_call>{"name": "weather"}</tool_call>' });
  expect(choices[0]?.message.tool_calls).toBeUndefined();
  expect(choices[0]?.finish_reason).toBe("stop");
});

test("a client that stops reading ends the generation", async () => {
  const { client, running } = await connect({ contextLength: 4096 });
  const stream = await client.chat.completions.create({
    ...{ model: MODEL, stream: true, logit_bias: { "258": -100, "256": -100 } },
    messages: [{ role: "user", content: "Hi" }],
  });
  let numChunks = 0;
  for await (const _chunk of stream) if (++numChunks === 5) break;
  await expect.poll(() => running.engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 });
  const { aborted, generatedTokens } = running.engine.status().counters;
  expect(aborted).toBe(1);
  expect(generatedTokens).toBeLessThan(4000);
});

test("an abort of a request that is not streamed ends it too", async () => {
  const { client, running } = await connect();
  const controller = new AbortController();
  const request = client.chat.completions.create(
    { model: MODEL, messages: [{ role: "user", content: "Hi" }], logit_bias: { "258": -100, "256": -100 } },
    { signal: controller.signal },
  );
  await expect.poll(() => running.engine.status().runningRequests).toBe(1);
  controller.abort();
  await expect(request).rejects.toThrow(OpenAI.APIUserAbortError);
  await expect.poll(() => running.engine.status().counters.aborted).toBe(1);
});

test("64 clients at a time, half of them streaming, all get their own answer", async () => {
  const { client } = await connect({ reply: (prompt) => `You said ${/user\n(\d+)/.exec(prompt)?.[1]}.` });
  const answers = await Promise.all(
    Array.from({ length: 64 }, async (_, index) => {
      const request = { model: MODEL, messages: [{ role: "user" as const, content: String(index) }] };
      if (index % 2 === 0) return (await client.chat.completions.create(request)).choices[0]?.message.content;
      let text = "";
      for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) {
        text += choices[0]?.delta.content ?? "";
      }
      return text;
    }),
  );
  expect(answers).toEqual(Array.from({ length: 64 }, (_, index) => `You said ${index}.`));
});

test("while weights are swapped a client is told to come back, and the openai package does", async () => {
  const { client, running } = await connect({ reply: () => "Back again" }, { maxRetries: 3 });
  await running.engine.pause();
  const refused = await running.post("/v1/completions", { prompt: "a" });
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
  setTimeout(() => running.engine.resume(), 100);
  const { choices } = await client.chat.completions.create({
    model: MODEL,
    messages: [{ role: "user", content: "Hi" }],
  });
  expect(choices[0]?.message.content).toBe("Back again");
});

test("a key is asked for when there is one, and health is open", async () => {
  const { client, running } = await connect({ server: { apiKey: "secret" } }, { apiKey: "wrong" });
  const refused = client.models.list();
  await expect(refused).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
  const right = client.withOptions({ apiKey: "secret" });
  const models = await right.models.list();
  expect(models.data.map(({ id }) => id)).toEqual([MODEL]);
  expect((await right.models.retrieve(MODEL)).owned_by).toBe("reroll");
  expect((await fetch(`${running.url}/health`)).status).toBe(200);
  expect((await fetch(`${running.url}/metrics`)).status).toBe(401);
});
