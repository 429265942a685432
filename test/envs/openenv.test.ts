/** Environments that speak OpenEnv: against a stand-in that takes its messages strictly, and against its own server where Python has one. */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { openenv } from "../../src/envs/openenv/openenv.ts";
import { seedPrompt } from "../../src/envs/seed-prompt.ts";
import type { Prompt } from "../../src/flow/prompt.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { trainSmall } from "../runs/small-run.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

interface Message {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Wants as many letters as its seed says. Takes the messages of `env_server/types.py`, and no other keys. */
function answerTo({ type, data }: Message, session: { seed: number; steps: number }): Message | null {
  if (type === "close") return null;
  if (type === "reset") {
    session.seed = Number(data.seed) % 7;
    return observation({ text: `Say ${session.seed} letters.` }, null, false);
  }
  const keys = Object.keys(data).join();
  if (type !== "step" || keys !== "message") return error("VALIDATION_ERROR", `Invalid message: ${keys}`);
  if (data.message === "crash") return error("EXECUTION_ERROR", "the parrot is dead");
  const message = String(data.message);
  return observation({ text: message.toUpperCase() }, -Math.abs(message.length - session.seed), ++session.steps >= 3);
}

function observation(fields: object, reward: number | null, done: boolean): Message {
  return { type: "observation", data: { observation: fields, reward, done } };
}

function error(code: string, message: string): Message {
  return { type: "error", data: { code, message } };
}

/** A server with room for `most` sessions. It sends every message in two frames, with a ping between them. */
async function startParrot(most: number): Promise<{ readonly url: string; readonly most: () => number }> {
  const sockets = new Set<Socket>();
  let mostSeen = 0;
  const server = createServer();
  server.on("upgrade", (request, socket: Socket) => {
    const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    if (sockets.size >= most) {
      send(socket, error("CAPACITY_REACHED", "full"));
      return void socket.end();
    }
    sockets.add(socket);
    mostSeen = Math.max(mostSeen, sockets.size);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    const session = { seed: 0, steps: 0 };
    let unread = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      unread = Buffer.concat([unread, chunk]);
      for (let frame = unmask(unread); frame !== null; frame = unmask(unread)) {
        unread = unread.subarray(frame.size);
        if (frame.opcode !== 1) continue;
        const answer = answerTo(JSON.parse(frame.text) as Message, session);
        if (answer === null) socket.end();
        else send(socket, answer);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, most: () => mostSeen };
}

function send(socket: Socket, message: Message): void {
  const bytes = Buffer.from(JSON.stringify(message));
  const [first, rest] = [bytes.subarray(0, 5), bytes.subarray(5)];
  const length = rest.length < 126 ? Buffer.of(rest.length) : Buffer.of(126, rest.length >> 8, rest.length & 255);
  socket.write(Buffer.concat([Buffer.of(1, first.length), first, Buffer.of(0x89, 0), Buffer.of(0x80), length, rest]));
}

function unmask(bytes: Buffer): { readonly opcode: number; readonly text: string; readonly size: number } | null {
  if (bytes.length < 2) return null;
  const short = bytes[1]! & 127;
  expect(bytes[1]! & 128).toBe(128);
  const start = short === 126 ? 4 : 2;
  const length = short === 126 ? bytes.readUInt16BE(2) : short;
  if (bytes.length < start + 4 + length) return null;
  const mask = bytes.subarray(start, start + 4);
  const payload = Buffer.from(bytes.subarray(start + 4, start + 4 + length));
  for (let i = 0; i < length; i++) payload[i]! ^= mask[i & 3]!;
  return { opcode: bytes[0]! & 15, text: payload.toString("utf8"), size: start + 4 + length };
}

const signal = new AbortController().signal;
const reply = (text: string) => ({ text, isCut: false });

/** What every server of this environment must do. */
async function playParrot(url: string): Promise<void> {
  const { makeEnv, makePrompt } = openenv.build(openenv.options.parse({ url, shows: "text", system: "Be brief." }));
  const env = await makeEnv(makePrompt!(12), 1);
  expect(await env.start(signal)).toEqual({
    instructions: [{ role: "system", content: "Be brief." }],
    observation: { messages: [{ role: "user", content: "Say 5 letters." }] },
  });
  const observed = (content: string) => ({ messages: [{ role: "user", content }] });
  const metrics = { valid_action: 1 };
  expect(await env.step(reply("hello"), signal)).toEqual({
    ...{ kind: "continues", metrics, observation: observed("HELLO") },
    reward: expect.closeTo(0),
  });
  expect(await env.step(reply("a".repeat(1000)), signal)).toMatchObject({ kind: "continues", reward: -995 });
  expect(await env.step(reply("été"), signal)).toEqual({
    ...{ kind: "terminated", reward: -2, metrics, observation: observed("ÉTÉ") },
  });
  await env.end?.();
  const broken = await makeEnv(makePrompt!(12), 2);
  await broken.start(signal);
  await expect(broken.step(reply("crash"), signal)).rejects.toMatchObject({
    code: "ENV_FAILED",
    message: expect.stringContaining("(EXECUTION_ERROR): the parrot is dead"),
  });
  await broken.end?.();
}

/** More episodes at once than the server has room for. */
const run = (url: string) => ({
  envs: { parrot: { type: "openenv", url, shows: "text", maxTurns: 2 } },
  rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 96, sampling: { maxTokens: 4 } },
  training: { optimizer: { lr: 1e-3 }, threads: 1 },
  engine: { threads: 1 },
  loop: { type: "sync", steps: 2 },
});

test("an episode is played by OpenEnv's messages, and a run trains on it with fewer sessions than episodes", async () => {
  const server = await startParrot(3);
  await playParrot(server.url);
  const { trajectories } = await trainSmall(run(server.url));
  expect(server.most()).toBe(3);
  expect(trajectories).toHaveLength(16);
  expect(trajectories.every(({ reward }) => reward.total < 0 || reward.total > -100)).toBe(true);
  expect(new Set(trajectories.map(({ reward }) => reward.total)).size).toBeGreaterThan(2);
});

test("a server that is gone fails the episode, and says where it was", async () => {
  const { url } = await startParrot(1);
  const { makeEnv, makePrompt } = openenv.build(openenv.options.parse({ url }));
  const env = await makeEnv(makePrompt!(1), 1);
  await env.start(signal);
  for (const close of closing.splice(0)) close();
  await expect(env.step(reply("x"), signal)).rejects.toMatchObject({
    code: "SERVICE_LOST",
    message: expect.stringContaining(`${url}/ws is lost`),
  });
  await env.end?.();
});

interface Rpc {
  readonly jsonrpc: string;
  readonly id: number;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** The tool side of a server with room for `most` sessions: JSON-RPC over HTTP, as `http_server.py` answers it. */
async function startTools(most: number) {
  const sessions = new Set<string>();
  const seen = { most: 0, created: 0 };
  const answer = ({ method, params }: Rpc): object => {
    const failed = (code: number, message: string, data?: object) => ({
      error: { code, message, ...(data && { data }) },
    });
    if (method === "openenv/session/create") {
      if (sessions.size >= most) return failed(-32000, "full", { active_sessions: sessions.size, max_sessions: most });
      const id = `s${++seen.created}`;
      sessions.add(id);
      seen.most = Math.max(seen.most, sessions.size);
      return { result: { session_id: id } };
    }
    const session = String(params.session_id);
    if (!sessions.has(session)) return failed(-32602, `Unknown session_id: ${session}`);
    if (method === "openenv/session/close") {
      sessions.delete(session);
      return { result: { session_id: session, closed: true } };
    }
    if (method === "tools/list")
      return {
        result: { tools: [{ name: "echo", description: "Says it again.", inputSchema: { type: "object" } }] },
      };
    if (method !== "tools/call") return failed(-32601, `Method not found: ${method}`);
    const { message } = params.arguments as { readonly message?: unknown };
    if (typeof message !== "string") return failed(-32603, "message is required");
    return { result: { content: [{ type: "text", text: message }], is_error: false } };
  };
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const rpc = JSON.parse(body) as Rpc;
    expect([request.method, request.url, rpc.jsonrpc]).toEqual(["POST", "/mcp", "2.0"]);
    response.end(JSON.stringify({ jsonrpc: "2.0", id: rpc.id, ...answer(rpc) }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(
    () => void server.closeAllConnections(),
    () => void server.close(),
  );
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, seen, sessions, forget: () => sessions.clear() };
}

const call = (args: object) => reply(`<tool_call>\n${JSON.stringify({ name: "echo", arguments: args })}\n</tool_call>`);

const sayHi: Prompt = { ...seedPrompt("openenv", 1), messages: [{ role: "user", content: "Say hi." }] };

/** What every server with an echo must do. */
async function playTools(url: string): Promise<void> {
  const { makeEnv, makePrompt } = openenv.build(openenv.options.parse({ url, protocol: "mcp" }));
  expect(makePrompt).toBeUndefined();
  const env = await makeEnv(sayHi, 1);
  expect(await env.start(signal)).toMatchObject({
    observation: { messages: [{ role: "user", content: "Say hi." }] },
    tools: [{ type: "function", function: { name: "echo", description: "Says it again." } }],
  });
  expect(await env.step(call({ message: "hi" }), signal)).toMatchObject({
    kind: "continues",
    observation: { messages: [{ role: "tool", name: "echo", content: "hi" }] },
  });
  // Arguments that the tool does not take are for the model to read.
  expect(await env.step(call({}), signal)).toMatchObject({
    kind: "continues",
    observation: { messages: [{ role: "tool", content: expect.stringMatching(/^Error: .*message/s) }] },
  });
  expect(await env.step(reply("hi"), signal)).toMatchObject({ kind: "terminated", reward: 0 });
  await env.end?.();
}

/** Tasks from data, tools from the server, rewards from the run. */
const toolRun = (url: string) => ({
  ...run(url),
  rollout: { ...run(url).rollout, contextLength: 1024 },
  envs: { default: { type: "openenv", url, protocol: "mcp", maxTurns: 2 } },
  data: { type: "rows", rows: [{ prompt: "Say a." }, { prompt: "Say b." }] },
  rewards: { default: { type: "length", curve: { shape: "target", target: 2, tolerance: 4 } } },
});

test("the tools of an OpenEnv server are called over MCP, in a session per episode, and a run trains with them", async () => {
  const server = await startTools(3);
  await playTools(server.url);
  const { trajectories } = await trainSmall(toolRun(server.url));
  expect(trajectories).toHaveLength(16);
  expect(trajectories.every(({ end }) => end.kind !== "failed")).toBe(true);
  expect(server.seen).toEqual({ most: 3, created: 17 });
  expect(server.sessions.size).toBe(0);
});

test("an answer to another request over MCP is refused", async () => {
  const server = createServer((request, response) => {
    request.resume();
    response.end(JSON.stringify({ jsonrpc: "2.0", id: 999, result: { session_id: "another" } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { makeEnv } = openenv.build(openenv.options.parse({ url, protocol: "mcp" }));
  const env = await makeEnv(sayHi, 1);
  await expect(env.start(new AbortController().signal)).rejects.toMatchObject({
    code: "ENV_FAILED",
    message: expect.stringContaining("it answered openenv/session/create with"),
  });
  server.closeAllConnections();
  server.close();
});

test("a server of tools that starts again fails the episode; one that is no OpenEnv server says where it was asked", async () => {
  const server = await startTools(1);
  const build = (url: string) => openenv.build(openenv.options.parse({ url, protocol: "mcp" }));
  const env = await build(server.url).makeEnv(sayHi, 1);
  await env.start(signal);
  server.forget();
  await expect(env.step(call({ message: "hi" }), signal)).rejects.toMatchObject({
    code: "ENV_FAILED",
    message: `The environment at ${server.url}/mcp failed: it has started again and lost the episode`,
  });
  await env.end?.();
  for (const close of closing.splice(0)) close();
  const gone = await build(server.url).makeEnv(sayHi, 1);
  await expect(gone.start(signal)).rejects.toMatchObject({
    code: "SERVICE_LOST",
    message: expect.stringContaining(`${server.url}/mcp did not answer openenv/session/create`),
  });
});

const python = process.env.REROLL_OPENENV_PYTHON ?? "python3";
const hasOpenEnv = spawnSync(python, ["-c", "import openenv.core.env_server"]).status === 0;
const why = hasOpenEnv ? "" : " (skipped: Python has no openenv)";

test.skipIf(!hasOpenEnv)(
  `the server of OpenEnv itself is played and trained on, with text and with tools${why}`,
  async () => {
    const [text, tools] = [await startPython("text"), await startPython("tools")];
    await playParrot(text);
    const { trajectories } = await trainSmall(run(text));
    expect(trajectories).toHaveLength(16);
    expect(new Set(trajectories.map(({ reward }) => reward.total)).size).toBeGreaterThan(2);
    const { makeEnv, makePrompt } = openenv.build(openenv.options.parse({ url: tools, actions: "tools" }));
    const env = await makeEnv(makePrompt!(1), 1);
    expect((await env.start(signal)).tools).toMatchObject([
      { type: "function", function: { name: "echo", description: "Says it again." } },
    ]);
    const called = await env.step(
      reply('<tool_call>\n{"name": "echo", "arguments": {"message": "hi"}}\n</tool_call>'),
      signal,
    );
    expect(JSON.stringify(called)).toContain("hi");
    expect(await env.step(reply("Done."), signal)).toMatchObject({ kind: "terminated" });
    await env.end?.();
    await playTools(tools);
    expect((await trainSmall(toolRun(tools))).trajectories.every(({ end }) => end.kind !== "failed")).toBe(true);
  },
);

async function startPython(kind: string): Promise<string> {
  const port = 20_000 + Math.floor(process.pid % 10_000) + (kind === "text" ? 0 : 10_000);
  const child = spawn(python, ["test/envs/peers/openenv_server.py", String(port), kind, "3"], { stdio: "ignore" });
  closing.push(() => child.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    const isReady = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return url;
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("options of the server's own messages are refused where it is spoken to by MCP, which would ignore them", () => {
  const resolve = (changes: object) =>
    resolveRun(
      {
        ...{
          model: { preset: "nano" },
          training: { optimizer: { lr: 1e-3 } },
          rewards: { default: { type: "exact" } },
        },
        data: { type: "rows", rows: [{ prompt: "?", answer: "!" }] },
        envs: { default: { type: "openenv", url: "http://127.0.0.1:8000", ...changes } },
      },
      [],
      {},
    );
  for (const [key, value] of Object.entries({ actions: "tools", field: "code", shows: "text" })) {
    expect(() => resolve({ protocol: "mcp", [key]: value })).toThrow(
      `envs.default.${key} is not valid: got "${value}". It goes with protocol "ws" alone, and protocol is "mcp", which shows the model tools and takes calls of them: leave ${key} out, or choose "ws".`,
    );
    expect(() => resolve({ protocol: "ws", [key]: value })).not.toThrow();
  }
  expect(() => resolve({ protocol: "mcp" })).not.toThrow();
});
