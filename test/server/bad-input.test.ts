/** Whatever a client sends, it gets an answer in OpenAI's shape, and the server stays whole. */
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { createServer } from "../../src/generation/server/create-server.ts";
import { fixtureTokenizer, type RunningServer, startServer } from "./start-server.ts";

let running: RunningServer;
beforeAll(async () => {
  running = await startServer({
    contextLength: 500,
    maxRunning: 2,
    maxQueuedRequests: 4,
    server: { maxBodyBytes: 20_000 },
  });
});
afterAll(async () => {
  expect(running.ownFaults).toEqual([]);
  await running.close();
});

const chat = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];

/** [what, path, body, status, code, param, part of the message] */
const BAD: readonly [string, string, unknown, number, string, string | null, string][] = [
  ["malformed JSON", chat, '{"messages": [', 400, "invalid_json", null, "not valid JSON"],
  ["an empty body", chat, "", 400, "invalid_json", null, "not valid JSON"],
  ["a body that is no object", chat, "[]", 400, "invalid_value", "body", "must be a JSON object"],
  ["a prototype in the body", chat, '{"__proto__": {"a": 1}}', 400, "invalid_json", null, "not valid JSON"],
  [
    "a huge body",
    chat,
    { messages: [{ role: "user", content: "x".repeat(30_000) }] },
    413,
    "request_too_large",
    null,
    "larger",
  ],
  ["no messages", chat, {}, 400, "invalid_value", "messages", "messages must be a list of messages: got nothing."],
  ["an empty list of messages", chat, { messages: [] }, 400, "invalid_value", "messages", "at least one message"],
  [
    "an unknown role",
    chat,
    { messages: [{ role: "wizard", content: "" }] },
    400,
    "invalid_value",
    "messages[0].role",
    "wizard",
  ],
  [
    "an image",
    chat,
    { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
    400,
    "invalid_value",
    "messages[0].content[0]",
    "reads text only",
  ],
  [
    "an unknown model",
    chat,
    { model: "gpt-9", messages },
    404,
    "model_not_found",
    "model",
    'This server has "scripted"',
  ],
  ["a negative temperature", chat, { messages, temperature: -0.5 }, 400, "invalid_value", "temperature", "got -0.5"],
  [
    "a temperature that is text",
    chat,
    { messages, temperature: "hot" },
    400,
    "invalid_value",
    "temperature",
    'got "hot"',
  ],
  ...(
    [
      ["temperature", [1e-320, 1e-30, 1e30, 1e308]],
      ["top_p", [1e-300, 1e-40, 1 + 1e-15, 5e-324]],
      ["max_tokens", [1e15, 2 ** 31, 1.5, -1]],
      ["max_completion_tokens", [1e15]],
      ["top_k", [1e15, -2]],
      ["min_p", [1e308, -1e-320]],
      ["repetition_penalty", [1e-320, 1e-30, 1e38, 1e308]],
      ["frequency_penalty", [2.5, -3]],
      ["presence_penalty", [-1e308]],
      ["seed", [2 ** 63, -1, 0.5, 1e300]],
      ["n", [1e15, 2 ** 53]],
      ["stream_interval", [1e300]],
      ["logit_bias", [{ 5: 1e308 }, { 5: -101 }, { 1e400: 1 }]],
      ["stop", ["x".repeat(2000)]],
    ] as const
  ).flatMap(([field, values]) =>
    values.map((value): (typeof BAD)[number] => [
      `${field} ${JSON.stringify(value).slice(0, 40)}`,
      chat,
      { messages, [field]: value },
      400,
      "invalid_value",
      field,
      field,
    ]),
  ),
  ["top_p 0", chat, { messages, top_p: 0 }, 400, "invalid_value", "top_p", "above 0"],
  ["a penalty", chat, { messages, presence_penalty: 3 }, 400, "invalid_value", "presence_penalty", "from -2 to 2"],
  [
    "an unknown format",
    chat,
    { messages, response_format: { type: "yaml" } },
    400,
    "invalid_value",
    "response_format.type",
    "json_schema",
  ],
  ["a forced tool", chat, { messages, tool_choice: "required" }, 400, "invalid_value", "tool_choice", "no tools"],
  [
    "two formats",
    chat,
    { messages, response_format: { type: "json_object" }, guided_regex: "a" },
    400,
    "invalid_value",
    "response_format",
    "two formats at once",
  ],
  ["old functions", chat, { messages, functions: [{}] }, 400, "invalid_value", "functions", "not supported"],
  ["sound", chat, { messages, modalities: ["text", "audio"] }, 400, "invalid_value", "modalities", "text only"],
  ["top_logprobs alone", chat, { messages, top_logprobs: 3 }, 400, "invalid_value", "top_logprobs", "needs logprobs"],
  [
    "too many top_logprobs",
    chat,
    { messages, logprobs: true, top_logprobs: 21 },
    400,
    "invalid_value",
    "top_logprobs",
    "0 to 20",
  ],
  ["too many choices", chat, { messages, n: 5 }, 400, "invalid_value", "n", "4 are allowed"],
  ["n 0", chat, { messages, n: 0 }, 400, "invalid_value", "n", "1 or more"],
  ["a bias on a word", chat, { messages, logit_bias: { cat: 1 } }, 400, "invalid_value", "logit_bias", "token ids"],
  ["a bias past the vocabulary", chat, { messages, logit_bias: { 9999: 1 } }, 400, "invalid_value", null, "below 260"],
  ["an empty stop", chat, { messages, stop: "" }, 400, "invalid_value", "stop", "not empty"],
  ["max_tokens 0", chat, { messages, max_tokens: 0 }, 400, "invalid_value", "max_tokens", "1 or more"],
  [
    "a chat past the context",
    chat,
    { messages: [{ role: "user", content: "x".repeat(600) }] },
    400,
    "context_length_exceeded",
    "messages",
    "maximum context length is 500 tokens",
  ],
  [
    "a prompt past the context",
    "/v1/completions",
    { prompt: new Array(500).fill(7) },
    400,
    "context_length_exceeded",
    "prompt",
    "resulted in 500 tokens",
  ],
  [
    "a reserved template variable",
    chat,
    { messages, chat_template_kwargs: { messages: [] } },
    400,
    "",
    null,
    "chat templates",
  ],
  [
    "broken tool arguments",
    chat,
    { messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: "{" } }] }] },
    400,
    "",
    null,
    "not JSON",
  ],
  ["an empty prompt", "/v1/completions", { prompt: "" }, 400, "invalid_value", null, "empty"],
  ["no prompt", "/v1/completions", {}, 400, "invalid_value", "prompt", "got nothing"],
  [
    "a prompt of mixed lists",
    "/v1/completions",
    { prompt: ["a", 1] },
    400,
    "invalid_value",
    "prompt[1]",
    "list of token ids",
  ],
  ["an id past the vocabulary", "/v1/completions", { prompt: [260] }, 400, "invalid_value", null, "from 0 to 259"],
  ["an echo", "/v1/completions", { prompt: "a", echo: true }, 400, "invalid_value", "echo", "not supported"],
  [
    "beams",
    "/v1/completions",
    { prompt: "a", use_beam_search: true },
    400,
    "invalid_value",
    "use_beam_search",
    "not supported",
  ],
  ["an unknown route", "/v1/nothing", {}, 404, "unknown_url", null, "does not exist"],
  ["embeddings", "/v1/embeddings", { input: "?" }, 404, "unknown_url", null, "makes no embeddings"],
  ["a reward for nobody", "/v1/sessions/none/reward", { reward: 1 }, 404, "session_not_found", "id", "not known"],
  [
    "a reward that is text",
    "/v1/sessions/none/reward",
    { reward: "1" },
    400,
    "invalid_value",
    "reward",
    "finite number",
  ],
];

test.each(BAD)("%s", async (_what, path, body, status, code, param, part) => {
  const response = await running.post(path, body);
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  expect({ status: response.status, code: error.code ?? "", param: error.param }).toEqual({ status, code, param });
  expect(error.message).toContain(part);
  expect(error.type).toBe("invalid_request_error");
});

test("the largest seed serves several choices", async () => {
  const response = await running.post(chat, { messages, seed: Number.MAX_SAFE_INTEGER, n: 2, max_tokens: 1 });
  expect(response.status).toBe(200);
});

test.each([
  ["GET", chat, 405, "method_not_allowed", "POST"],
  ["PUT", "/v1/completions?a=1", 405, "method_not_allowed", "POST"],
  ["DELETE", "/v1/models", 405, "method_not_allowed", "GET, HEAD"],
  ["PATCH", "/v1/sessions/some", 405, "method_not_allowed", "GET, HEAD, DELETE"],
  ["OPTIONS", chat, 405, "method_not_allowed", "POST"],
  ["GET", "/nowhere", 404, "unknown_url", null],
  ["GET", "/v1/chat/completions/more", 404, "unknown_url", null],
  ["GET", "/%zz", 400, "invalid_value", null],
  ["GET", `/v1/sessions/${"x".repeat(300)}`, 400, "invalid_value", null],
])("%s %s is refused in OpenAI's shape", async (method, path, status, code, allow) => {
  const response = await fetch(running.url + path, { method });
  expect([response.status, response.headers.get("allow")]).toEqual([status, allow]);
  expect(await response.json()).toEqual({
    error: {
      message: expect.any(String),
      type: "invalid_request_error",
      param: status === 400 ? "url" : null,
      code,
    },
  });
});

test("an expectation that nobody can meet is refused in OpenAI's shape", async () => {
  const text = await new Promise<string>((resolve, reject) => {
    const headers = { expect: "a miracle" };
    const request = httpRequest(running.url + chat, { method: "POST", headers }, (response) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk)).on("end", () => resolve(body));
    });
    request.on("error", reject).end();
  });
  expect(JSON.parse(text)).toMatchObject({ error: { type: "invalid_request_error", code: "expectation_failed" } });
});

test("a body that is not JSON by its type is refused", async () => {
  const response = await running.post(chat, "hi", { "content-type": "text/plain" });
  expect(response.status).toBe(415);
  expect(await response.json()).toMatchObject({ error: { code: "unsupported_media_type" } });
});

test("what is not HTTP gets an answer in the same shape", async () => {
  const { port } = new URL(running.url);
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), "127.0.0.1", () => socket.write("GARBAGE\r\n\r\n"));
    let text = "";
    socket.on("data", (chunk) => (text += chunk));
    socket.on("end", () => resolve(text));
    socket.on("error", reject);
  });
  expect(answer).toContain("400 Bad Request");
  expect(JSON.parse(answer.split("\r\n\r\n")[1]!)).toMatchObject({ error: { type: "invalid_request_error" } });
});

test("a client that hangs up before it has sent everything leaves nothing behind", async () => {
  const request = httpRequest(running.url + chat, {
    method: "POST",
    headers: { "content-type": "application/json", "content-length": "5000" },
  });
  request.on("error", () => {});
  request.write('{"messages":');
  request.destroy();
  expect((await running.post("/v1/completions", { prompt: "a", max_tokens: 1 })).status).toBe(200);
});

test("unknown fields are left out, and the client is told which", async () => {
  const response = await running.post(chat, { messages, max_tokens: 1, best_of: 1, colour: "red", user: "me" });
  expect(response.status).toBe(200);
  expect(response.headers.get("x-reroll-ignored-fields")).toBe("best_of, colour");
});

test("a full queue sends clients away with Retry-After, and comes back to life", async () => {
  await running.engine.pause();
  await running.engine.abortAll();
  running.engine.resume();
  const long = () => running.post("/v1/completions", { prompt: "a", max_tokens: 400, ignore_eos: true });
  const responses = await Promise.all(Array.from({ length: 20 }, long));
  const statuses = responses.map(({ status }) => status);
  expect(statuses).toContain(200);
  expect(statuses).toContain(429);
  const busy = responses.find(({ status }) => status === 429)!;
  expect(busy.headers.get("retry-after")).toBe("1");
  expect(await busy.json()).toMatchObject({ error: { type: "rate_limit_error", code: "queue_full" } });
  expect((await long()).status).toBe(200);
});

test("a failure of the engine is a server error, before and in a stream", async () => {
  const failure = new RerollError("NON_FINITE", "The model gave NaN for 3 of 260 scores.");
  const failing = await startServer({ failure: () => failure });
  const ask = (stream: boolean) => failing.post("/v1/completions", { prompt: "a", stream });
  const whole = await ask(false);
  const told = {
    error: { type: "server_error", code: "generation_failed", message: `The generation failed: ${failure.message}` },
  };
  expect(whole.status).toBe(500);
  expect(await whole.json()).toMatchObject(told);
  const events = (await (await ask(true)).text()).split("\n\n").filter((event) => event !== "");
  expect(JSON.parse(events.at(-1)!.slice("data: ".length))).toMatchObject(told);
  expect(events[0]).toContain('"text":"A"');
  expect(failing.ownFaults).toHaveLength(2);
  await failing.close();
});

test("a reply that the engine breaks off is to be asked for again, unless the client wants its tokens", async () => {
  const held = await startServer({ beforeStep: () => new Promise(() => {}) });
  const ask = (more: object) => held.post("/v1/completions", { prompt: "a", ...more });
  const [plain, withTokens] = [ask({}), ask({ return_token_ids: true })];
  await expect.poll(() => held.engine.status().queuedRequests).toBe(2);
  await held.engine.abortAll();
  const refused = await plain;
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(await refused.json()).toMatchObject({ error: { code: "generation_aborted" } });
  expect(await (await withTokens).json()).toMatchObject({ choices: [{ finish_reason: "abort", token_ids: [] }] });
  await held.close();
});

test("a server without a key listens on this machine only", async () => {
  const parts = {
    engine: running.engine,
    tokenizer: fixtureTokenizer,
    modelName: "m",
    clock: () => 0,
    newId: () => "id",
    onError: () => {},
  };
  const open = createServer(parts);
  await expect(async () => open.listen({ host: "0.0.0.0" })).rejects.toMatchObject({ code: "SERVER_UNPROTECTED" });
  await open.close();
  const keyed = createServer(parts, { apiKey: "k" });
  expect(await keyed.listen({ host: "0.0.0.0" })).toMatch(/^http:/);
  await keyed.close();
});
