/** Clients that mean harm, or are broken in ways that look like it: each is refused or cut off, and others are served. */
import { Agent, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import type { GenerateRequest } from "../../src/generation/generate.ts";
import { type RunningServer, type StartOptions, startServer } from "./start-server.ts";

const chat = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];
const running: RunningServer[] = [];

async function start(options: StartOptions = {}): Promise<RunningServer> {
  const server = await startServer(options);
  running.push(server);
  return server;
}

afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});

interface ErrorBody {
  readonly error: { readonly code: string; readonly param: string | null; readonly message: string };
}

async function refusal(response: Response): Promise<ErrorBody["error"] & { status: number }> {
  const { error } = (await response.json()) as ErrorBody;
  return { ...error, status: response.status };
}

test("JSON that nests without end is refused, in a body, in a field and in the text of a tool call", async () => {
  const server = await start();
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  const called = { role: "assistant", tool_calls: [{ id: "1", function: { name: "f", arguments: deep } }] };
  const bodies = [
    `{"messages":${JSON.stringify(messages)},"temperature":${deep}}`,
    `{"messages":${JSON.stringify(messages)},"chat_template_kwargs":{"x":${deep}}}`,
    `{"messages":${JSON.stringify(messages)},"tools":[{"type":"function","function":{"name":"f","parameters":${deep}}}]}`,
  ];
  for (const body of bodies) {
    expect(await refusal(await server.post(chat, body))).toMatchObject({
      status: 400,
      param: "body",
      message: "The request body nests deeper than 128 levels of lists and objects.",
    });
  }
  expect(await refusal(await server.post(chat, { messages: [...messages, called] }))).toMatchObject({
    status: 400,
    param: "messages[1].tool_calls[0].function.arguments",
  });
  expect(server.ownFaults).toEqual([]);
});

test("a model that writes a bottomless call has written text", async () => {
  const call = `<tool_call>{"name":"f","arguments":${"[".repeat(9000)}${"]".repeat(9000)}}</tool_call>`;
  const server = await start({ contextLength: 40_000, reply: () => call });
  const tools = [{ type: "function", function: { name: "f" } }];
  const response = await server.post(chat, { messages, tools });
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  expect(choices[0]?.message.content).toBe(call);
});

test("lists that only waste time are refused before they are rendered", async () => {
  const server = await start();
  const many = Array.from({ length: 4097 }, () => ({ role: "user", content: "" }));
  expect((await refusal(await server.post(chat, { messages: many }))).message).toContain("at most 4096 messages");
  const tools = Array.from({ length: 1025 }, () => ({ type: "function", function: { name: "f" } }));
  expect((await refusal(await server.post(chat, { messages, tools }))).message).toContain("at most 1024 tools");
});

test("megabytes without a word are refused after a part of them", async () => {
  const server = await start({ contextLength: 1000 });
  for (const text of ["a", " ", "7", "\u4e2d"]) {
    const { message, code } = await refusal(await server.post("/v1/completions", { prompt: text.repeat(1_000_000) }));
    expect(code).toBe("context_length_exceeded");
    expect(Number(/at least (\d+) tokens/.exec(message)?.[1])).toBeLessThan(20_000);
  }
});

async function inFlight({ url }: RunningServer): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^reroll_in_flight_requests (\d+)$/m.exec(text)?.[1]);
}

test.each([true, false])(
  "a client that reads nothing is cut off, and its place is free again (stream: %s)",
  async (stream) => {
    const server = await start({ contextLength: 40_000, server: { stallTimeoutMs: 200 } });
    const body = JSON.stringify({
      prompt: "a",
      n: 8,
      max_tokens: 30_000,
      ignore_eos: true,
      return_token_ids: true,
      stream,
    });
    const head = `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const socket: Socket = connect(Number(new URL(server.url).port), "127.0.0.1", () => socket.write(head + body));
    socket.on("error", () => {});
    socket.pause();
    await expect.poll(() => inFlight(server), { timeout: 10_000 }).toBe(1);
    await expect.poll(() => inFlight(server), { timeout: 30_000 }).toBe(0);
    socket.destroy();
  },
);

test("a client that waits long for its tokens is not cut off, also on a connection that brought an answer before", async () => {
  let delayMs = 0;
  const server = await start({
    server: { stallTimeoutMs: 100 },
    beforeStep: () => new Promise((resolve) => setTimeout(resolve, delayMs)),
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (stream: boolean) =>
    new Promise<string>((resolve, reject) => {
      const headers = { "content-type": "application/json" };
      const sent = httpRequest(`${server.url}/v1/completions`, { agent, method: "POST", headers }, (response) => {
        let text = "";
        response.on("data", (chunk) => (text += chunk));
        response.on("end", () => resolve(text));
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.end(JSON.stringify({ prompt: "a", max_tokens: 2, ignore_eos: true, stream }));
    });
  await ask(false);
  delayMs = 400;
  expect(await ask(false)).toContain('"finish_reason":"length"');
  expect(await ask(true)).toContain("[DONE]");
  agent.destroy();
});

function getWithHost(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(`${url}/v1/models`, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("a name that points to this machine from outside is no way in without a key", async () => {
  const server = await start();
  for (const host of ["localhost:8000", "127.0.0.1", "127.0.0.1:1", "app.localhost", "[::1]:8000", "LOCALHOST", ""]) {
    expect(await getWithHost(server.url, host), host).toBe(200);
  }
  for (const host of ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"]) {
    expect(await getWithHost(server.url, host), host).toBe(403);
  }
  const keyed = await start({ server: { apiKey: "k" } });
  expect(await getWithHost(keyed.url, "any.example")).toBe(401);
});

test("keys that no header can carry are refused at the start", async () => {
  for (const apiKey of ["", "two words", "caf\u00e9", "line\nbreak"]) {
    await expect(startServer({ server: { apiKey } })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  }
});

test("a client's cache key is not the name of a session, and not a megabyte", async () => {
  const seen: (string | undefined)[] = [];
  const server = await start({
    reply: (_prompt: string, _index: number, request: GenerateRequest) => {
      seen.push(request.sessionId);
      return "ok";
    },
  });
  await server.post("/v1/completions", { prompt: "a" }, { "x-reroll-session": "s" });
  await server.post("/v1/completions", { prompt: "a", session_id: "s#0" });
  expect(seen).toEqual(["s#0", "client s#0"]);
  const long = await refusal(await server.post("/v1/completions", { prompt: "a", session_id: "x".repeat(257) }));
  expect(long).toMatchObject({ status: 400, param: "session_id" });
});

test("headers cannot be smuggled in through the name of a session", async () => {
  const server = await start();
  for (const id of ["a%0d%0ax-evil:%201", "a%00", "..%2f..", "%22%7d", "a%20b", "x".repeat(129)]) {
    const response = await server.post(`/sessions/${id}${chat}`, { messages, max_tokens: 1 });
    expect(response.status, id).toBe(400);
    expect(response.headers.get("x-evil")).toBe(null);
  }
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  expect(metrics).toContain('route="/sessions/:session/v1/chat/completions",status="400"} 6');
  expect(metrics).not.toContain("evil");
});

test("what all sessions hold is bounded: ended ones go first, and then no new one is opened", async () => {
  const server = await start({ reply: () => "four", server: { sessions: { maxTokens: 30 } } });
  const ask = (id: string) => server.post("/v1/completions", { prompt: "123456" }, { "x-reroll-session": id });
  // Each holds 6 tokens of prompt and 5 of reply, the end included.
  for (const id of ["a", "b", "c"]) {
    expect((await ask(id)).status).toBe(200);
    await server.post(`/v1/sessions/${id}/reward`, { reward: 1 });
  }
  expect(server.server.sessions.dropped.total).toBe(1);
  expect(server.server.sessions.takeFinished().map(({ id }) => id)).toEqual(["b", "c"]);
  for (const id of ["d", "e", "f"]) expect((await ask(id)).status).toBe(200);
  expect(await refusal(await ask("g"))).toMatchObject({ status: 429, code: "too_many_sessions" });
});

test("metadata of a reward is bounded", async () => {
  const server = await start();
  await server.post("/v1/completions", { prompt: "a" }, { "x-reroll-session": "s" });
  const post = (length: number) =>
    server.post("/v1/sessions/s/reward", { reward: 1, metadata: { x: "y".repeat(length) } });
  expect(await refusal(await post(65_536))).toMatchObject({ status: 400, param: "metadata" });
  expect((await post(65_000)).status).toBe(200);
});

test("an engine that is gone is the server's fault, not the request's", async () => {
  const server = await start();
  const broken = new RerollError("ENGINE_BROKEN", "The engine's thread failed.");
  Object.defineProperty(server.engine, "generate", { value: () => Promise.reject(broken) });
  expect(await refusal(await server.post(chat, { messages }))).toMatchObject({ status: 500, code: "engine_broken" });
  expect(server.ownFaults).toHaveLength(1);
  const status = { ...server.engine.status(), brokenBy: "The engine's thread failed." };
  Object.defineProperty(server.engine, "status", { value: () => status });
  const health = await fetch(`${server.url}/health`);
  expect([health.status, await health.json()]).toMatchObject([503, { status: "broken" }]);
});

async function rawAnswer(server: RunningServer, onConnect: (socket: Socket) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1", () => onConnect(socket));
    let text = "";
    socket.on("data", (chunk) => (text += chunk));
    socket.on("close", () => resolve(text));
    socket.on("error", reject);
  });
}

test("a request that is too slow or has headers without end gets the status that says so", async () => {
  const server = await start();
  server.server.app.server.once("connection", (socket: Socket) => {
    const late = Object.assign(new Error("Request timeout"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
    server.server.app.server.emit("clientError", late, socket);
  });
  expect(await rawAnswer(server, () => {})).toMatch(
    /^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*"code":"request_timeout"/,
  );
  const answer = await rawAnswer(server, (socket) => socket.write(`GET /health HTTP/1.1\r\nx: ${"y".repeat(20_000)}`));
  expect(answer).toMatch(/^HTTP\/1\.1 431 [\s\S]*"code":"headers_too_large"/);
});

test("stop strings of emoji, and characters that come in four tokens, are never cut in half", async () => {
  const server = await start({ reply: () => "a\ud83d\ude00b\ud83d\ude01c" });
  const read = async (stop: string[] | null, stream: boolean) => {
    const response = await server.post(chat, { messages, stop, stream });
    const text = await response.text();
    if (!stream)
      return (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]!.message.content;
    const pieces = [...text.matchAll(/"content":"([^"]*)"/g)].map(([, piece]) => piece ?? "");
    for (const piece of pieces) expect(piece).not.toMatch(/\p{Cs}/u);
    return pieces.join("");
  };
  for (const stream of [true, false]) {
    expect(await read(null, stream)).toBe("a\ud83d\ude00b\ud83d\ude01c");
    expect(await read(["\ud83d\ude01"], stream)).toBe("a\ud83d\ude00b");
    // The two differ in their last byte only.
    expect(await read(["\ud83d\ude02", "b\ud83d\ude01c!"], stream)).toBe("a\ud83d\ude00b\ud83d\ude01c");
  }
});

test("weights that change in the middle of a stream are told token by token", async () => {
  let step = 0;
  let publish: (version: number) => void = () => {};
  const server = await start({
    reply: () => "abcdef",
    beforeStep: async () => {
      if (step++ === 3) publish(2);
    },
  });
  publish = (version) => server.engine.publish(version);
  const body = { prompt: "x", stream: true, return_token_ids: true, max_tokens: 6 };
  const response = await server.post("/v1/completions", body);
  const versions = [...(await response.text()).matchAll(/"versions":\[([\d,]*)\]/g)].flatMap(([, list]) =>
    (list ?? "").split(",").filter((part) => part !== ""),
  );
  expect(versions).toHaveLength(6);
  expect(new Set(versions)).toEqual(new Set(["1", "2"]));
  expect([...versions].sort()).toEqual(versions);
});
