/** The server, driven with the Vercel AI SDK and its OpenAI-compatible provider. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { MODEL, type RunningServer, type StartOptions, startServer } from "./start-server.ts";

let running: RunningServer | undefined;
afterEach(async () => {
  await running?.close();
  running = undefined;
});

async function connect(options: StartOptions = {}, session?: string) {
  running = await startServer(options);
  const provider = createOpenAICompatible({
    name: "reroll",
    baseURL: `${running.url}/v1`,
    includeUsage: true,
    ...(session !== undefined && { headers: { "x-reroll-session": session } }),
  });
  return { model: provider(MODEL), running };
}

const weather = tool({
  description: "Tells the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => ({ city, degrees: 19 }),
});

/** An agent with a tool that calls it, and then answers. */
function weatherReply(prompt: string): string {
  if (prompt.includes('"degrees":19')) return "It is 19 degrees.";
  return 'Let me see.\n\n<tool_call>\n{"name": "weather", "arguments": {"city":   "Rom"}}\n</tool_call>';
}

test("plain text, its finish and its usage", async () => {
  const { model } = await connect({ reply: () => "Hello!" });
  const { text, finishReason, usage } = await generateText({ model, prompt: "Hi", maxOutputTokens: 20, seed: 1 });
  expect([text, finishReason]).toEqual(["Hello!", "stop"]);
  expect(usage).toMatchObject({ inputTokens: 21, outputTokens: 7 });
});

test("a stream brings the same text in pieces", async () => {
  const { model } = await connect({ reply: () => "Hello, streaming world!" });
  const result = streamText({ model, prompt: "Hi" });
  const pieces: string[] = [];
  for await (const piece of result.textStream) pieces.push(piece);
  expect(pieces.join("")).toBe("Hello, streaming world!");
  expect(pieces.length).toBeGreaterThan(5);
  expect(await result.finishReason).toBe("stop");
  expect((await result.usage).outputTokens).toBe(24);
});

test("a tool loop runs to its end, and its turns are one sample with the tokens that were drawn", async () => {
  const { model, running } = await connect({ reply: weatherReply }, "ai-1");
  const { text, steps } = await generateText({
    ...{ model, tools: { weather }, prompt: "How is the weather in Rom?" },
    stopWhen: stepCountIs(4),
  });
  expect(text).toBe("It is 19 degrees.");
  expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
  expect(steps[0]?.toolCalls[0]).toMatchObject({ toolName: "weather", input: { city: "Rom" } });
  await running.post("/v1/sessions/ai-1/reward", { reward: 1 });
  const [episode] = running.server.sessions.takeFinished();
  expect(episode?.samples).toHaveLength(1);
  const [first, second] = episode!.samples[0]!.turns;
  expect(running.tokenizer.decode(first!.tokenIds)).toBe(`${weatherReply("")}<|im_end|>`);
  expect([...second!.promptIds.slice(0, first!.promptIds.length + first!.tokenIds.length)]).toEqual([
    ...first!.promptIds,
    ...first!.tokenIds,
  ]);
});

test("a tool loop works streamed as well", async () => {
  const { model, running } = await connect({ reply: weatherReply }, "ai-2");
  const result = streamText({
    ...{ model, tools: { weather }, prompt: "How is the weather in Rom?" },
    stopWhen: stepCountIs(4),
  });
  let text = "";
  for await (const part of result.fullStream) if (part.type === "text-delta") text += part.text;
  expect(text).toBe("Let me see.It is 19 degrees.");
  expect((await result.steps).map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "stop"]);
  await running.post("/v1/sessions/ai-2/reward", { reward: 1 });
  const [episode] = running.server.sessions.takeFinished();
  expect(episode?.samples.map(({ turns }) => turns.length)).toEqual([2]);
});

test("log-probs and token ids are in the body of the response", async () => {
  const { running } = await connect({ reply: () => "ab" });
  const provider = createOpenAICompatible({
    name: "reroll",
    baseURL: `${running.url}/v1`,
    transformRequestBody: (body) => ({ ...body, logprobs: true, top_logprobs: 1, return_token_ids: true }),
  });
  const experimental_include = { responseBody: true };
  const { response } = await generateText({ model: provider(MODEL), prompt: "Hi", experimental_include });
  expect(response.body).toMatchObject({
    choices: [
      {
        token_ids: [97, 98, 258],
        sampler_logprobs: [-0.25, -0.25, -0.25],
        model_logprobs: [-0.25, -0.25, -0.25],
        versions: [1, 1, 1],
        logprobs: { content: [{ token: "a", logprob: -0.25, bytes: [97] }, { token: "b" }, { token: "<|im_end|>" }] },
      },
    ],
    prompt_token_ids: [...running.tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")],
  });
});

test("an abort in the middle of a stream ends the generation", async () => {
  const { running } = await connect();
  const provider = createOpenAICompatible({
    name: "reroll",
    baseURL: `${running.url}/v1`,
    transformRequestBody: (body) => ({ ...body, ignore_eos: true }),
  });
  const controller = new AbortController();
  const result = streamText({
    ...{ model: provider(MODEL), prompt: "Hi", abortSignal: controller.signal },
    onError: () => {},
  });
  let numParts = 0;
  for await (const _part of result.fullStream) if (++numParts === 6) controller.abort();
  await expect.poll(() => running.engine.status().runningRequests).toBe(0);
  expect(running.engine.status().counters).toMatchObject({ aborted: 1, finished: 0 });
});

test("an agent of which only the base URL can be set names its session there", async () => {
  const { running } = await connect({ reply: () => "Hello!" });
  const provider = createOpenAICompatible({ name: "reroll", baseURL: `${running.url}/sessions/by-url/v1` });
  await generateText({ model: provider(MODEL), prompt: "Hi" });
  const record = await (await fetch(`${running.url}/v1/sessions/by-url`)).json();
  expect(record).toMatchObject({ id: "by-url", status: "open", samples: [{ turns: [{ finish: { kind: "stop" } }] }] });
});

test("an error of the server reaches the caller with its message", async () => {
  const { model } = await connect();
  const refused = generateText({ model, prompt: "Hi", temperature: -1, maxRetries: 0 });
  await expect(refused).rejects.toThrow("temperature must be 0, or a number from 0.0001 to 10000: got -1.");
});
